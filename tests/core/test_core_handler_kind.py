"""What may be a handler."""

from functools import partial

import pytest

from craig_mq.core.errors import DlqConfigError
from craig_mq.core.handler_kind import validate_handler


async def one_argument(letter, *, store=None):
    """Take what a handler is called with."""


async def two_arguments(store, letter):
    """Take one argument more."""


class Callable:
    """A callable object, and one with a handler as a method."""

    def __call__(self, letter):
        """Return an awaitable."""
        return one_argument(letter)

    async def method(self, letter):
        """Take what a handler is called with."""


@pytest.mark.parametrize(
    "handler",
    [
        one_argument,
        partial(one_argument, store=1),
        partial(two_arguments, "store"),
        partial(partial(two_arguments), "store"),
        Callable(),
        Callable().method,
    ],
)
def test_what_takes_one_argument_and_returns_an_awaitable_is_a_handler(handler) -> None:
    """Functions, methods, their partials and callable objects may be handlers."""
    assert validate_handler(handler) is None


@pytest.mark.parametrize(
    ("handler", "hint"),
    [
        (two_arguments, "missing a required argument: 'letter'"),
        (partial(one_argument, 1), "too many positional arguments"),
        (lambda letter: one_argument(letter), "`async def`"),  # noqa: PLW0108 - a lambda is what is tried
        (Callable, "an async function of one argument"),
        (None, "an async function of one argument"),
    ],
)
def test_what_would_fail_on_every_message_is_refused_with_a_reason(handler, hint: str) -> None:
    """A handler that could not be called with one argument, or awaited, is a DlqConfigError that says why."""
    with pytest.raises(DlqConfigError, match="handler") as caught:
        validate_handler(handler)
    assert hint in str(caught.value)
