"""What every private server of the tests is: started on entering, gone without a trace on leaving."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self


class PrivateServer(abc.ABC):
    """A context manager around ``_open`` and ``close``; both block. A failed start leaves nothing either."""

    @abc.abstractmethod
    def _open(self) -> None:
        """Start it for the first time."""

    @abc.abstractmethod
    def close(self) -> None:
        """End what still runs and delete the data."""

    def __enter__(self) -> Self:
        try:
            self._open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
