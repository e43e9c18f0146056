"""The one hook through which the runtime reports; it can never break what it reports on (S53)."""

from __future__ import annotations

from craig_mq.observe.events import Event, Observer


class Reporter:
    """Hands events to one observer, or to nobody.

    ``listening`` lets hot paths skip building an event that nobody would hear. An observer that
    raises an ``Exception`` is heard no less the next time, and changes nothing else; the number of
    its failures is kept in ``observer_errors``.
    """

    __slots__ = ("_observer", "listening", "observer_errors")

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer
        self.listening = observer is not None
        self.observer_errors = 0

    def emit(self, event: Event) -> None:
        """Report one event, synchronously, in order."""
        if self._observer is None:
            return
        try:
            self._observer(event)
        except Exception:  # noqa: BLE001 - S53: no failure of a subscriber may reach settlement
            self.observer_errors += 1
