"""What a running service says of itself, as one immutable document."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.define(frozen=True, slots=True)
class Status:
    """``ready`` is true while both sessions consume; ``document`` is plain JSON data."""

    ready: bool
    document: dict[str, Any]
