"""``--set NAME=VALUE``: the parameters of an experiment on the command line."""

import click

from craig_mq.review import ParameterError, Params


class RefusedParameter(click.ClickException):
    """A refused parameter: one line on stderr, exit code 2."""

    exit_code = 2


def _read_settings(_: click.Context, __: click.Parameter, settings: tuple[str, ...]) -> Params:
    values: dict[str, str] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name.strip():
            raise RefusedParameter(f"--set takes NAME=VALUE, not {setting!r}")
        values[name.strip()] = text.strip()
    try:
        return Params.from_text(values)
    except ParameterError as error:
        raise RefusedParameter(str(error)) from error


review_settings = click.option(
    "--set",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_read_settings,
    help="Set a parameter, such as max_receives=3, action=hold or repair=false.",
)
