"""The bodies of requests, each bounded; an unknown or mistyped field is refused."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal, TypeVar

import msgspec

from craig_mq.console.refused import Refused

MAX_BODY_BYTES = 64 * 1024
MAX_PAGE = 200

Line = Annotated[str, msgspec.Meta(max_length=500)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Where = Annotated[tuple[Line, ...], msgspec.Meta(max_length=20)]

T = TypeVar("T", bound=msgspec.Struct)


class AskSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token of the printed address."""

    token: Key


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request whose address says it all."""


class AskRows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which rows of the reading: conditions, one group (``reason fingerprint``), and a page of them."""

    where: Where = ()
    group: Line | None = None
    offset: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)] = 50


class AskMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message by its key."""

    key: Key


class AskPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A dry run over the selected rows, or over ``keys`` among them."""

    where: Where = ()
    group: Line | None = None
    keys: Annotated[tuple[Key, ...], msgspec.Meta(max_length=1_000)] | None = None
    allow_duplicates: bool = False
    keep_park_count: bool = False
    allow_returns: bool = False
    identity: Literal["keep", "new"] = "keep"


class AskRedrive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Carry out the plan with this SHA-256; ``yes`` must be how many it selects."""

    plan: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    yes: Annotated[int, msgspec.Meta(ge=0)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    pace: Line = "10/s"
    stop_if_returned: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None


def decode(body: bytes, kind: type[T]) -> T:
    """Read a request's body. Raises Refused, which names what is wrong without quoting it."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"the request is not understood: {error}") from error
