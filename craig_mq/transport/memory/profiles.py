"""What differs between versions of RabbitMQ, as far as the promises depend on it (rabbitmq-facts)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs

_MIB: Final = 1024 * 1024


@attrs.define(frozen=True, slots=True)
class Profile:
    """One version. Sizes in bytes.

    ``default_delivery_limit``: of quorum queues, None for no limit. ``negative_limit_is_none``: whether
    a limit of -1 means "no limit" (it discards after the first take on 3.x). ``counts_every_return``:
    whether each way back into a quorum queue counts towards the limit, or only a reject and a lost
    session. ``timeout_cancels``: consumer_timeout cancels consumers of quorum queues instead of closing
    channels of all. ``passive_needs_configure``: whether a passive declare asks for a permission.
    ``replaces_x_death``: dead-lettering drops an ``x-death`` header that a client sent.
    """

    version: str
    default_delivery_limit: int | None = None
    negative_limit_is_none: bool = False
    counts_every_return: bool = True
    timeout_cancels: bool = False
    max_message_size: int = 128 * _MIB
    passive_needs_configure: bool = False
    names_permission: bool = False
    refuses_transient: bool = False
    replaces_x_death: bool = False
    quorum_priorities: bool = False


PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {
        "3.10": Profile("3.10"),
        "3.13": Profile("3.13", names_permission=True),
        "4.0": Profile(
            "4.0",
            default_delivery_limit=20,
            negative_limit_is_none=True,
            max_message_size=16 * _MIB,
            names_permission=True,
            replaces_x_death=True,
        ),
        "4.3": Profile(
            "4.3",
            default_delivery_limit=20,
            negative_limit_is_none=True,
            counts_every_return=False,
            timeout_cancels=True,
            max_message_size=16 * _MIB,
            passive_needs_configure=True,
            names_permission=True,
            refuses_transient=True,
            replaces_x_death=True,
            quorum_priorities=True,
        ),
    }
)
