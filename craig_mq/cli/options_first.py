"""Groups whose options stand before the subcommand, and say so where one stands behind it."""

from __future__ import annotations

from typing import Any

import click


class OptionsFirst(click.Group):
    """A group that knows its own options when a subcommand refuses them."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click's; a group's option behind the subcommand is refused with the place it belongs to."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            name = error.option_name
            if not any(name in one.opts for one in self.params):
                raise
            behind = "" if error.ctx is None else f" {error.ctx.info_name}"
            words = f"{name} goes before the subcommand: {ctx.command_path} {name} …{behind} …"
            raise click.UsageError(words, error.ctx) from error
