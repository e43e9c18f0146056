"""Exchanges of the model: bindings and routing."""

from __future__ import annotations

from collections.abc import Mapping

_ROUTE_CACHE_LIMIT = 4096


def topic_matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Tell whether a topic pattern (``*`` one word, ``#`` any number) matches a routing key's words."""
    reachable = {0}
    for part in pattern:
        if part == "#":
            reachable = set(range(min(reachable), len(words) + 1))
        else:
            reachable = {at + 1 for at in reachable if at < len(words) and part in {"*", words[at]}}
        if not reachable:
            return False
    return len(words) in reachable


class Exchange:
    """One exchange: names of queues by binding key, with the routes of recent keys remembered."""

    def __init__(self, name: str, kind: str, *, durable: bool, arguments: Mapping[str, object]) -> None:
        """Start without bindings; ``kind`` is ``topic``, ``direct`` or ``fanout``."""
        self.name = name
        self.kind = kind
        self.durable = durable
        self.arguments = dict(arguments)
        self._bindings: dict[tuple[str, str], tuple[str, ...]] = {}
        self._routes: dict[str, tuple[str, ...]] = {}

    def bind(self, queue: str, binding_key: str) -> None:
        """Add a binding; the same one twice is one."""
        self._bindings[queue, binding_key] = tuple(binding_key.split("."))
        self._routes.clear()

    def unbind(self, queue: str, binding_key: str) -> None:
        """Remove a binding if it is there."""
        self._bindings.pop((queue, binding_key), None)
        self._routes.clear()

    def forget(self, queue: str) -> None:
        """Remove every binding of a queue that is gone."""
        for binding in [binding for binding in self._bindings if binding[0] == queue]:
            del self._bindings[binding]
        self._routes.clear()

    def route(self, routing_key: str) -> tuple[str, ...]:
        """Return the queues a message of this key goes to, each once."""
        found = self._routes.get(routing_key)
        if found is None:
            if len(self._routes) >= _ROUTE_CACHE_LIMIT:
                self._routes.clear()
            found = self._routes[routing_key] = self._match(routing_key)
        return found

    def _match(self, routing_key: str) -> tuple[str, ...]:
        words = tuple(routing_key.split("."))
        matching = [
            queue
            for (queue, binding_key), pattern in self._bindings.items()
            if self.kind == "fanout"
            or (self.kind == "direct" and binding_key == routing_key)
            or (self.kind == "topic" and topic_matches(pattern, words))
        ]
        return tuple(dict.fromkeys(matching))
