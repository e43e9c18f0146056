"""The share URL's query: only what differs from the defaults, in table order.

    to_query(params)  <->  from_query(query)      n r w a fix d id rr qr, and i for the snapshot shown

Unknown keys are ignored, so a newer page's link still opens; a known key's bad value raises `ParameterError`.
"""

import re
from collections import Counter
from typing import Final
from urllib.parse import parse_qsl, urlencode

from craig_mq.review.params import PARAMETERS, ParameterError, Params

STEP_KEY: Final = "i"
_STEP: Final = re.compile(r"[0-9]{1,4}")
_BY_KEY: Final = {parameter.key: parameter for parameter in PARAMETERS}


def to_query(params: Params, step: int | None = None) -> str:
    """Return the query without a leading `?`; empty for the defaults at an unnamed step."""
    values = params.as_dict()
    pairs = [
        (parameter.key, parameter.domain.write(values[parameter.name]))
        for parameter in PARAMETERS
        if values[parameter.name] != parameter.default
    ]
    if step is not None:
        pairs.append((STEP_KEY, str(step)))
    return urlencode(pairs)


def from_query(query: str) -> Params:
    """Return the parameters a query names (a leading `?` or `#` is dropped); raises `ParameterError`."""
    values: dict[str, object] = {}
    for key, text in _pairs(query):
        if key in _BY_KEY:
            values[_BY_KEY[key].name] = _BY_KEY[key].domain.read(text)
    return Params.from_values(values)


def step_from_query(query: str) -> int | None:
    """Return the snapshot a query asks for, or None; raises `ParameterError` unless it is a number."""
    text = dict(_pairs(query)).get(STEP_KEY)
    if text is not None and not _STEP.fullmatch(text):
        raise ParameterError(STEP_KEY, text, (0, 9999), "a step number")
    return None if text is None else int(text)


def _pairs(query: str) -> list[tuple[str, str]]:
    pairs = parse_qsl(query.lstrip("?#"), keep_blank_values=True)
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1 and (key in _BY_KEY or key == STEP_KEY):
            raise ParameterError(key, dict(pairs)[key], (), "given once")
    return pairs
