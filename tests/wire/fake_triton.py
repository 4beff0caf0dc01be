"""A real gRPC server that speaks Triton's KServe v2 stream and does exactly what a script says.

It runs in threads of this process, so that a client's event loop and the server do not share one.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import grpc
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from trtspec.wire.tensors import pack_strings, unpack_strings

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EndEarly", "ErrorMessage", "FakeTriton", "Kill", "Received", "Reply", "answer", "echo_script"]


@dataclass(frozen=True)
class Received:
    """A request as the server saw it."""

    model: str
    inputs: dict[str, Any]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        return str(self.inputs["text_input"][0])


@dataclass(frozen=True)
class Reply:
    """One response, `at_ms` after the request arrived; fields that are None are not sent."""

    at_ms: float
    text: str | None = ""
    total_tokens: int | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    histogram: tuple[int, ...] | None = None
    num_input_tokens: int | None = None
    token_ids: tuple[int, ...] | None = None
    token_texts: tuple[str, ...] = ()
    prompt_ids: tuple[int, ...] | None = None
    sources: tuple[int, ...] = ()  # of the tokens; the target's own where there are fewer
    lookups: tuple[int, int, int] | None = None
    logits: tuple[float, ...] | None = None
    finish_reason: str = ""
    final: bool = False


@dataclass(frozen=True)
class ErrorMessage:
    """An error inside the stream, as Triton delivers it once a stream is open."""

    text: str


@dataclass(frozen=True)
class EndEarly:
    """The stream ends with status OK and without a final response."""


@dataclass(frozen=True)
class Kill:
    """The call is aborted as when the server's process is gone."""


Step = Reply | ErrorMessage | EndEarly | Kill
Script = Callable[[Received], Iterable[Step]]


@dataclass
class FakeTriton:
    """`with FakeTriton(script) as server:` listens on `server.url`; `received` are the requests so far."""

    script: Script
    ready: bool = True
    received: list[Received] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    declared: tuple[str, ...] = ("text_input",)
    url: str = ""

    def __enter__(self) -> Self:
        self._lock = threading.Lock()
        self._server = grpc.server(ThreadPoolExecutor(max_workers=32), options=(("grpc.so_reuseport", 0),))
        service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(_Servicer(self), self._server)
        self.url = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """As if the process were killed: open calls break, the port closes."""
        self._server.stop(None).wait()

    def seen(self, request: Received) -> None:
        with self._lock:
            self.received.append(request)

    def count(self, model: str) -> None:
        with self._lock:
            self.counts[model] = self.counts.get(model, 0) + 1


class _Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    def __init__(self, owner: FakeTriton) -> None:
        self._owner = owner

    def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return pb.ModelReadyResponse(ready=self._owner.ready)

    def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        answer = pb.ModelMetadataResponse(name=request.name)
        for name in self._owner.declared:
            answer.inputs.add(name=name, datatype="BYTES", shape=[-1, 1])
        for name in ("text_output", "num_spec_steps"):
            answer.outputs.add(name=name, datatype="BYTES", shape=[-1, 1])
        return answer

    def ModelStatistics(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        answer = pb.ModelStatisticsResponse()
        for name, count in self._owner.counts.items():
            answer.model_stats.add(name=name).inference_stats.success.count = count
        return answer

    def ModelStreamInfer(self, request_iterator: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        for message in request_iterator:
            start = time.perf_counter()
            request = _received(message)
            self._owner.seen(request)
            played = threading.Event()
            context.add_callback(partial(self._ended, request.model, played))
            yield from self._play(request, start, context, played)

    def _ended(self, model: str, played: threading.Event) -> None:
        if not played.is_set():
            self._owner.cancelled.append(model)

    def _play(self, request: Received, start: float, context: Any, played: threading.Event) -> Iterator[Any]:
        for step in self._owner.script(request):
            if isinstance(step, EndEarly):
                played.set()
                return
            if isinstance(step, Kill):
                played.set()
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            if isinstance(step, ErrorMessage):
                played.set()
                yield pb.ModelStreamInferResponse(error_message=step.text)
                return
            assert isinstance(step, Reply)
            while (left := start + step.at_ms / 1000 - time.perf_counter()) > 0:
                if not context.is_active():
                    return
                time.sleep(min(left, 0.02))
            if step.final:
                played.set()
                self._owner.count(request.model)
            yield _message(step)


_FORMATS = {"BOOL": "?", "INT32": "i", "UINT64": "Q", "FP32": "f"}


def _received(message: Any) -> Received:
    inputs: dict[str, Any] = {}
    for tensor, raw in zip(message.inputs, message.raw_input_contents, strict=True):
        assert tensor.shape[0] == 1 or len(tensor.shape) == 1
        if tensor.datatype == "BYTES":
            inputs[tensor.name] = unpack_strings(raw)
        else:
            inputs[tensor.name] = list(struct.unpack(f"<{tensor.shape[-1]}{_FORMATS[tensor.datatype]}", raw))
    assert message.parameters["triton_enable_empty_final_response"].bool_param
    return Received(message.model_name, inputs, {tensor.name: tuple(tensor.shape) for tensor in message.inputs})


_LOOKUPS = ("num_lookup_steps", "total_lookup_draft_tokens", "total_accepted_lookup_draft_tokens")


def _message(reply: Reply) -> Any:
    message = pb.ModelStreamInferResponse()
    response = message.infer_response
    response.parameters["triton_final_response"].bool_param = reply.final
    if reply.text is not None:
        _add(response, "text_output", "BYTES", pack_strings([reply.text]), 1)
    for name, value in (
        ("num_output_tokens", reply.total_tokens),
        ("num_input_tokens", reply.num_input_tokens),
        ("num_spec_steps", reply.steps),
        ("total_draft_tokens", reply.drafted),
        ("total_accepted_draft_tokens", reply.accepted),
        *zip(_LOOKUPS, reply.lookups or (), strict=False),
    ):
        if value is not None:
            _add(response, name, "INT32", struct.pack("<i", value), 1)
    for name, values in (
        ("acceptance_histogram", reply.histogram),
        ("token_ids", reply.token_ids),
        ("prompt_token_ids", reply.prompt_ids),
    ):
        if values is not None:
            _add(response, name, "INT32", struct.pack(f"<{len(values)}i", *values), len(values))
    if reply.token_ids is not None:
        _add(response, "token_texts", "BYTES", pack_strings(reply.token_texts), len(reply.token_texts))
        count = len(reply.token_ids)
        sources = [*reply.sources, *[0] * count][:count]
        _add(response, "token_sources", "INT32", struct.pack(f"<{count}i", *sources), count)
    if reply.logits is not None:
        _add(response, "generation_logits", "FP32", struct.pack(f"<{len(reply.logits)}f", *reply.logits), 1)
    if reply.finish_reason:
        _add(response, "finish_reason", "BYTES", pack_strings([reply.finish_reason]), 1)
    return message


def _add(response: Any, name: str, datatype: str, raw: bytes, size: int) -> None:
    tensor = response.outputs.add(name=name, datatype=datatype)
    tensor.shape.extend([1, size])
    response.raw_output_contents.append(raw)


def answer(words: Iterable[str], *, first_ms: float = 5, gap_ms: float = 1, bundle: int = 1) -> list[Reply]:
    """A well-behaved stream: `words` one token each, `bundle` of them a chunk, then the empty final response."""
    items = list(words)
    replies, accepted, histogram = [], 0, [0] * bundle
    for index, start in enumerate(range(0, len(items), bundle)):
        part = items[start : start + bundle]
        accepted += len(part) - 1
        histogram[len(part) - 1] += 1
        steps = index + 1
        speculation: dict[str, Any] = (
            {"steps": steps, "drafted": steps * (bundle - 1), "accepted": accepted, "histogram": tuple(histogram)}
            if bundle > 1
            else {"steps": 0, "drafted": 0, "accepted": 0, "histogram": (0,)}
        )
        replies.append(
            Reply(first_ms + index * gap_ms, "".join(part), start + len(part), num_input_tokens=7, **speculation)
        )
    end = first_ms + max(0, len(replies) - 1) * gap_ms
    return [*replies, Reply(end, None, final=True)]


def echo_script(*, bundle: int = 1, first_ms: float = 5, gap_ms: float = 1) -> Script:
    """Answers any prompt with words made from it, cut at max_tokens."""

    def script(request: Received) -> Iterable[Step]:
        limit = int(request.inputs["max_tokens"][0])
        words = [f"w{(len(request.prompt) * 7 + i) % 97} " for i in range(limit)]
        return answer(words, first_ms=first_ms, gap_ms=gap_ms, bundle=bundle)

    return script
