"""The console as an ASGI application: one document, its assets, the API, and the review at ``/review/``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from craig_mq.console.asked import AskMessage, AskPlan, AskRedrive, AskRows, Nothing, decode
from craig_mq.console.desk import Desk
from craig_mq.console.door import Door
from craig_mq.console.page import DOCUMENT, TYPES, asset
from craig_mq.console.refused import Refused
from craig_mq.review.page.app import review_app
from craig_mq.review.page.guard import READING, Guard

T = TypeVar("T", bound=msgspec.Struct)
METHODS = (*READING, "POST")


def console_app(desk: Desk, *, hosts: frozenset[str], port: int) -> tuple[Guard, str]:
    """The guarded application, and the token that opens it."""
    door = Door(Starlette(routes=_routes(desk)), hosts=hosts, port=port)
    return Guard(door, hosts, METHODS), door.token


def _routes(desk: Desk) -> list[BaseRoute]:
    async def state(request: Request) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return desk.state(_since(request))

    async def service(_: Request) -> dict[str, Any]:
        return await desk.service.document()

    async def effects(_: Request) -> dict[str, Any]:
        return await desk.effects()

    async def history(_: Request) -> dict[str, Any]:
        return await desk.history()

    async def read(_: Nothing) -> dict[str, Any]:
        await desk.read()
        return desk.state(desk.settings.now())

    async def hand_back(_: Nothing) -> dict[str, Any]:
        await desk.hand_back()
        return desk.state(desk.settings.now())

    async def rows(asked: AskRows) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return desk.rows(asked)

    async def stop(_: Nothing) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        desk.runner.stop(f"{desk.settings.who} on the console")
        return desk.state(desk.settings.now())

    return [
        Route("/", _document),
        Route("/assets/{name}", _asset),
        Mount("/review", review_app()),
        *(_get(name, answer) for name, answer in {"state": state, "service": service}.items()),
        *(_get(name, answer) for name, answer in {"effects": effects, "history": history}.items()),
        _post("read", Nothing, read),
        _post("hand-back", Nothing, hand_back),
        _post("rows", AskRows, rows),
        _post("message", AskMessage, desk.message),
        _post("body", AskMessage, desk.body),
        _post("plan", AskPlan, desk.plan),
        _post("redrive", AskRedrive, desk.redrive),
        _post("stop", Nothing, stop),
    ]


def _get(name: str, answer: Callable[[Request], Awaitable[dict[str, Any]]]) -> Route:
    async def endpoint(request: Request) -> Response:
        return await _answered(answer(request))

    return Route(f"/api/{name}", endpoint, methods=["GET"])


def _post(name: str, kind: type[T], answer: Callable[[T], Awaitable[dict[str, Any]]]) -> Route:
    async def endpoint(request: Request) -> Response:
        async def decoded() -> dict[str, Any]:
            return await answer(decode(await request.body(), kind))

        return await _answered(decoded())

    return Route(f"/api/{name}", endpoint, methods=["POST"])


async def _answered(answer: Awaitable[dict[str, Any]]) -> Response:
    try:
        response = JSONResponse(await answer)
    except Refused as refused:
        response = JSONResponse({"error": str(refused)}, refused.status)
    await trio.lowlevel.checkpoint()
    return response


def _since(request: Request) -> float:
    try:
        return float(request.query_params.get("since", "0"))
    except ValueError:
        return 0.0


async def _document(_: Request) -> Response:
    await trio.lowlevel.checkpoint()
    return HTMLResponse(asset(DOCUMENT))


async def _asset(request: Request) -> Response:
    await trio.lowlevel.checkpoint()
    name = request.path_params["name"]
    if name not in TYPES:
        return PlainTextResponse("Not found.\n", 404)
    return Response(asset(name), media_type=TYPES[name])
