"""C librabbitmq: compiled on the spot where a compiler and the library are there, then run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from benchmarks.peers.stopwatch import Task

SOURCE = Path(__file__).with_suffix(".c")


def available() -> bool:
    """Whether a C compiler and librabbitmq's header are installed."""
    return shutil.which("cc") is not None and Path("/usr/include/amqp.h").exists()


def main() -> None:
    task = Task.from_arguments()
    url = urlsplit(task.url)
    binary = Path(tempfile.mkdtemp(prefix="librabbitmq-")) / "loop"
    subprocess.run(["cc", "-O2", "-o", str(binary), str(SOURCE), "-lrabbitmq"], check=True)
    arguments = [
        url.hostname or "127.0.0.1",
        str(url.port or 5672),
        unquote(url.path.removeprefix("/")) or "/",
        unquote(url.username or "guest"),
        unquote(url.password or "guest"),
        task.source,
        task.target,
        str(task.count),
        str(task.prefetch),
    ]
    sys.stdout.flush()
    os.execv(binary, [str(binary), *arguments])


if __name__ == "__main__":
    main()
