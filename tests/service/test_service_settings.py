"""Settings files: what is read, and how each mistake is named."""

from datetime import timedelta
from pathlib import Path

import pytest

from craig_mq.service.settings import SettingsError, load_settings


def _write(folder: Path, text: str) -> Path:
    path = folder / "craig.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_fills_the_tables_it_names_and_leaves_defaults_elsewhere(tmp_path: Path) -> None:
    """Durations are seconds; what is not said keeps its default."""
    settings = load_settings(
        _write(tmp_path, '[retry]\nparking_ttl = 60\n[options]\nprefetch = 4\n[service]\nqueue = "a.dlq"\n')
    )
    assert settings.retry.parking_ttl == timedelta(minutes=1)
    assert settings.retry.park_cap == 12
    assert settings.options.prefetch == 4
    assert settings.service.queue == "a.dlq"
    assert settings.service.binding_keys is None


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[retry]\npark_cap = 0\n", r"\[retry\].*park_cap.*1 to 100"),
        ("[retry]\nttl = 1\n", r"\[retry\] has no 'ttl'; it takes parking_ttl, park_cap"),
        ("[retry]\nparking_ttl = '10m'\n", r"parking_ttl = '10m': .* 24 h, written as a number of seconds$"),
        ("[options]\nstart_timeout = '9'\n", r"start_timeout = '9': .*, written as a number of seconds$"),
        ("[other]\n", r"unknown table \[other\]"),
        ("retry = 3\n", r"retry must be a table"),
        ("[retry\n", r"not TOML"),
        ("[service]\nqueue = 5\n", r"\[service\] queue .*allowed is a text"),
        ("[service]\nmetrics = 9464\n", r"\[service\] metrics .*allowed is a text"),
        ("[service]\nbinding_keys = 5\n", r"\[service\] binding_keys = 5: allowed is a list of texts"),
        ("[service]\nbinding_keys = [1]\n", r"\[service\] binding_keys .*allowed is a list of texts"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, text: str, named: str) -> None:
    """A refusal names the file, the table, the key and what is allowed."""
    path = _write(tmp_path, text)
    with pytest.raises(SettingsError, match=named) as caught:
        load_settings(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is a settings error, not a traceback."""
    with pytest.raises(SettingsError, match=r"cannot read .*absent\.toml"):
        load_settings(tmp_path / "absent.toml")


def test_one_text_as_binding_keys_is_refused(tmp_path: Path) -> None:
    """A lone text is no list of keys: taken letter by letter, its "#" would bind everything."""
    with pytest.raises(SettingsError, match=r"binding_keys = 'dlq\.svc\.#': allowed is a list of texts"):
        load_settings(_write(tmp_path, '[service]\nbinding_keys = "dlq.svc.#"\n'))


def test_an_ill_typed_ledger_is_refused_without_its_password(tmp_path: Path) -> None:
    """What stands in place of the audit URL is not quoted."""
    with pytest.raises(SettingsError, match=r"audit .*allowed is a text") as caught:
        load_settings(_write(tmp_path, '[service]\naudit = ["postgresql://me:sekret@db/x"]\n'))
    assert "sekret" not in str(caught.value)
