"""Topology files with mistakes in them."""

import pytest

from craig_mq.cli.topology_file import load_topologies
from craig_mq.service.settings import SettingsError


@pytest.mark.parametrize("keys", ["5", '"dlq.#"'])
def test_binding_keys_that_are_no_list_are_refused_by_name(tmp_path, keys) -> None:
    """A number or a lone text as binding_keys is a mistake of the file, named with its table."""
    file = tmp_path / "topology.toml"
    file.write_text(f'[[queue]]\nqueue = "a"\nbinding_keys = {keys}\n', encoding="utf-8")
    with pytest.raises(SettingsError, match="number 1: binding_keys must be a list of texts"):
        load_topologies(file)
