"""The public names load on first use (decisions, the public API)."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import craig_mq


def test_every_public_name_has_a_home() -> None:
    """Each name in __all__ can be imported from craig_mq and is listed by dir()."""
    for name in craig_mq.__all__:
        assert getattr(craig_mq, name) is not None
        assert name in dir(craig_mq)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """A name craig_mq does not have raises AttributeError naming it."""
    with pytest.raises(AttributeError, match="no_such_name"):
        craig_mq.no_such_name  # noqa: B018


def test_a_loaded_name_is_kept() -> None:
    """A public name loaded once is found without asking again."""
    fresh = importlib.reload(craig_mq)
    assert fresh.Disposition is fresh.Disposition
    assert "Disposition" in vars(fresh)


def test_the_core_imports_nothing_that_acts() -> None:
    """Loading the whole core brings in no Trio, asyncio, logging, random numbers or client."""
    code = """
import pkgutil, sys, importlib, craig_mq.core as core
for module in pkgutil.iter_modules(core.__path__, "craig_mq.core."):
    importlib.import_module(module.name)
unwanted = {"trio", "asyncio", "pamqp", "aio_pika", "psycopg", "sqlite3", "prometheus_client"}
print(sorted(unwanted & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
