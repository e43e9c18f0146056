"""Counting the interpreter's allocations, with a small library built here where there is a compiler.

What an interpreter's free lists hand out again (frames, small tuples, floats) is not counted.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

SOURCE = Path(__file__).with_suffix(".c")
Counter: TypeAlias = Callable[[], int]


def build(folder: Path) -> Path | None:
    """Compile the library into ``folder``; None without a compiler or the interpreter's headers."""
    compiler = shutil.which("cc")
    include = Path(sysconfig.get_path("include"))
    if compiler is None or not (include / "Python.h").exists():
        return None
    library = folder / "allocations.so"
    command = [compiler, "-O2", "-shared", "-fPIC", f"-I{include}", str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True, capture_output=True)
    return library


def counter(library: str) -> Counter:
    """Count from now on; the function returned says how many there were."""
    loaded = ctypes.PyDLL(library)
    loaded.allocations.restype = ctypes.c_longlong
    loaded.install()
    return loaded.allocations
