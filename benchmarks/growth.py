"""Whether something grows in a long run: its highest in the last part against its highest before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

WARM_UP, REFERENCE_END, LAST_BEGIN = 0.2, 0.5, 0.7
SLACK: Mapping[str, float] = {"resident_kib": 2_048, "tasks": 8, "descriptors": 1, "channels": 0}
"""How much more is no growth: allocator and scheduler jitter of a few pages and tasks."""


def growth(samples: Sequence[Mapping[str, float]], name: str) -> dict[str, float | bool]:
    """Compare the last 30 % of ``samples`` with those between 20 % (the warm-up) and 50 %.

    Raises ValueError for fewer than ten samples, which show nothing.
    """
    count = len(samples)
    if count < 10:
        raise ValueError(f"{count} samples show no growth and no lack of it")
    values = [sample[name] for sample in samples]
    reference = max(values[int(count * WARM_UP) : int(count * REFERENCE_END)])
    last = max(values[int(count * LAST_BEGIN) :])
    return {"warm": reference, "last": last, "grew": last > reference + SLACK[name]}
