"""The routes."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from trtspec import __version__
from trtspec.openai_api.answers import Answer, ChatForm, CompletionForm, Form
from trtspec.openai_api.backend import Backend
from trtspec.openai_api.bodies import Body, ChatBody, CompletionBody, read_body
from trtspec.openai_api.failures import ApiError
from trtspec.openai_api.guard import Guard
from trtspec.openai_api.sending import EventStream, collect, events, unless_gone
from trtspec.openai_api.settings import Settings
from trtspec.openai_api.translate import frontend_request
from trtspec.wire import Connection

__all__ = ["make_app"]

_BODY_TIMEOUT = 60.0  # seconds until a request's body must have arrived
_ROUTER = APIRouter()


def make_app(settings: Settings, *, api_key: str = "") -> FastAPI:
    """The application; it connects to the server when it starts, and needs it only for requests."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with Connection(settings.grpc_url) as connection:
            app.state.backend = Backend(settings, connection)
            yield

    # no documentation pages: they load scripts from elsewhere
    app = FastAPI(title="trtspec", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.settings, app.state.started = settings, int(time.time())
    app.include_router(_ROUTER)
    app.add_middleware(Guard, api_key=api_key, max_body_bytes=settings.max_body_bytes)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)
    return app


async def _api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    """A path or a method that is not there."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}"
    return ApiError(error.status_code, message, code="not_found").response()


async def _unexpected(_request: Request, error: Exception) -> Response:
    """The client gets one line; the server prints the rest to the log."""
    return ApiError(500, f"internal error: {type(error).__name__}", code="internal").response()


def _document(kind: type[Body]) -> dict[str, Any]:
    """The body's schema for /openapi.json."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": kind.model_json_schema()}}}}


@_ROUTER.post("/v1/completions", openapi_extra=_document(CompletionBody))
async def completions(request: Request) -> Response:
    """Continue a text."""
    return await _answer(request, read_body(CompletionBody, await _data(request)), CompletionForm())


@_ROUTER.post("/v1/chat/completions", openapi_extra=_document(ChatBody))
async def chat_completions(request: Request) -> Response:
    """Answer a conversation, rendered by the model's own chat template."""
    return await _answer(request, read_body(ChatBody, await _data(request)), ChatForm())


@_ROUTER.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The names that requests may give as `model`."""
    return {"object": "list", "data": [_model(request, name) for name in request.app.state.settings.models]}


@_ROUTER.get("/v1/models/{name:path}")
async def model(request: Request, name: str) -> dict[str, Any]:
    """One of them."""
    _check_model(request, name)
    return _model(request, name)


@_ROUTER.get("/health/live")
async def live() -> dict[str, str]:
    """This process answers."""
    return {"status": "live"}


@_ROUTER.get("/health")
@_ROUTER.get("/health/ready")
async def ready(request: Request) -> Response:
    """200 when the frontend takes requests, else 503."""
    if not await _backend(request).ready():
        raise ApiError(503, "the frontend model is not ready", code="model_not_ready")
    return JSONResponse({"status": "ready"})


@_ROUTER.get("/metrics")
async def metrics(request: Request) -> Response:
    """Triton's metrics, with the frontend's own among them."""
    return Response(await _backend(request).metrics(), media_type="text/plain; version=0.0.4")


async def _data(request: Request) -> bytes:
    """The body. Only as JSON: a web page elsewhere cannot send that type without being asked first (CORS)."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "the body must be sent as Content-Type: application/json", code="unsupported_media_type")
    try:
        return await asyncio.wait_for(request.body(), _BODY_TIMEOUT)
    except asyncio.TimeoutError:  # not TimeoutError before Python 3.11
        raise ApiError(408, "the body did not arrive in time", code="timeout") from None
    except ClientDisconnect:
        raise ApiError(499, "the client has gone", code="cancelled") from None


async def _answer(request: Request, body: Body, form: Form) -> Response:
    _check_model(request, body.model)
    answer = Answer(form, f"{form.prefix}-{uuid.uuid4().hex}", body.model, body.include_usage)
    limit = body.token_limit or request.app.state.settings.max_output_tokens
    chunks = _backend(request).stream(frontend_request(body, answer.id, limit))
    headers = {"x-request-id": answer.id}
    if not body.stream:
        return JSONResponse(answer.whole(await unless_gone(request, collect(chunks))), headers=headers)
    rest = events(answer, chunks)
    return EventStream(await unless_gone(request, rest.__anext__()), rest, headers)


def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


def _check_model(request: Request, name: str) -> None:
    served = request.app.state.settings.models
    if name not in served:
        message = f"The model {name!r} does not exist; there is {', '.join(served)}"
        raise ApiError(404, message, code="model_not_found", param="model")


def _model(request: Request, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": request.app.state.started, "owned_by": "trtspec"}
