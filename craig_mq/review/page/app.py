"""The page as a Starlette application: one document, its assets and one computed run per request.

Its addresses are relative, so another application can mount it under a path of its own.
"""

from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from trio.lowlevel import checkpoint

from craig_mq.review.model import simulate
from craig_mq.review.page.document import SCRIPTS, STYLE, asset, served_page
from craig_mq.review.page.view import view
from craig_mq.review.params import ParameterError
from craig_mq.review.query import STEP_KEY, from_query, step_from_query

_TYPES: Final = {STYLE: "text/css"} | dict.fromkeys(SCRIPTS, "text/javascript")


def review_app() -> Starlette:
    """Return the application; it holds no state and does no I/O but reading its own assets."""
    return Starlette(
        routes=[
            Route("/", _page),
            Route("/api/run", _run),
            Route("/assets/{name}", _asset),
        ]
    )


async def _page(_: Request) -> Response:
    await checkpoint()
    return HTMLResponse(served_page())


async def _asset(request: Request) -> Response:
    await checkpoint()
    name = request.path_params["name"]
    if name not in _TYPES:
        return PlainTextResponse("Not found.\n", 404)
    return Response(asset(name), media_type=_TYPES[name])


async def _run(request: Request) -> Response:
    """Answer a share URL's query with the view of its run (200), or with what is wrong with it (422)."""
    await checkpoint()
    query = request.scope["query_string"].decode("ascii", "replace")
    try:
        run = simulate(from_query(query))
        step = step_from_query(query) or 0
        if step > len(run.events):
            last = len(run.events)
            raise ParameterError(STEP_KEY, step, (0, last), f"a step from 0 to {last}")  # noqa: TRY301 - as any other
    except ParameterError as error:
        refusal = {"field": error.field, "bounds": list(error.bounds), "message": str(error)}
        return JSONResponse({"error": refusal}, 422)
    return JSONResponse(view(run) | {"step": step})
