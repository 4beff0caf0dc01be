"""A server whose answers leave on a plan, so cheap that it is never what is measured; run by `run.py`.

    python benchmarks/loadgen/server.py PLAN

PLAN is `t50g10n128k1`: the first chunk after 50 ms, one every 10 ms, 128 tokens, 1 a chunk (`ks`: as a speculating
server has them). It prints its port. Every chunk's text is two times in ns of the clock of time.perf_counter_ns, which
all processes of a machine share: when the request's last byte was received and when this chunk was written. GET /log
gives the same of the first chunk by X-Request-ID, for clients that keep no texts.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass

import uvloop

_SPECULATIVE = (3, 1, 4, 2, 5, 1, 1, 4, 3, 2)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Plan:
    name: str
    at: tuple[float, ...]  # seconds after the request was received
    made: tuple[int, ...]  # tokens up to and with each chunk

    @classmethod
    def parse(cls, name: str) -> Plan:
        first, gap, tokens, size = re.fullmatch(r"t(\d+)g(\d+)n(\d+)k(\d+|s)", name).groups()  # type: ignore[union-attr]
        made: list[int] = []
        while not made or made[-1] < int(tokens):
            step = _SPECULATIVE[len(made) % len(_SPECULATIVE)] if size == "s" else int(size)
            made.append(min(int(tokens), (made[-1] if made else 0) + step))
        at = tuple((int(first) + int(gap) * index) / 1000 for index in range(len(made)))
        return cls(name, at, tuple(made))


class Connection(asyncio.Protocol):
    def __init__(self, plan: Plan, log: dict[str, tuple[int, int]]) -> None:
        self.plan, self.log = plan, log
        self.loop = asyncio.get_running_loop()
        self.buffer = b""
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        if self.timer is not None:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        received = time.perf_counter_ns()
        self.buffer += data
        head, found, body = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        size = re.search(rb"(?i)content-length: *(\d+)", head)
        if len(body) < (int(size[1]) if size else 0):
            return
        self.buffer = b""
        if head.startswith(b"POST"):
            self.begin(head, received)
        else:
            self.page(head.split(b" ", 2)[1])

    def page(self, path: bytes) -> None:
        pages = {
            b"/log": self.log,
            b"/v1/models": {"data": [{"id": self.plan.name, "owned_by": "benchmark"}]},
            b"/v2": {"name": "benchmark"},
        }
        data = json.dumps(pages.get(path, {})).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self.transport.write(head.encode() + data)
        if path == b"/log":
            self.log.clear()

    def begin(self, head: bytes, received: int) -> None:
        name = re.search(rb"(?i)x-request-id: *([^\r\n]+)", head)
        self.name = name[1].decode() if name else None
        self.received, self.step, self.begun = received, 0, self.loop.time()
        kind = b"chat" if b"/chat/" in head[:200] else b"text" if b"/completions" in head[:200] else b"triton"
        self.event = {"chat": _chat, "text": _text, "triton": _triton}[kind.decode()]
        self.transport.write(_HEAD)
        self.wait()

    def wait(self) -> None:
        due = self.begun + self.plan.at[self.step]
        if due <= self.loop.time():
            self.send()
        else:
            self.timer = self.loop.call_at(due, self.send)

    def send(self) -> None:
        last = self.step + 1 == len(self.plan.at)
        now = time.perf_counter_ns()
        if self.step == 0 and self.name is not None:
            self.log[self.name] = (self.received, now)
        data = self.event(f"{self.received} {now} ", self.plan.made[self.step], last).encode()
        self.transport.write(b"%x\r\n%s\r\n%s" % (len(data), data, b"0\r\n\r\n" if last else b""))
        self.step += 1
        if not last:
            self.wait()


def _triton(text: str, made: int, last: bool) -> str:
    reason = "length" if last else ""
    body = f'"num_output_tokens":{made},"text_output":"{text}","finish_reason":"{reason}"'
    return f'data: {{"model_name":"m","model_version":"1",{body}}}\n\n'


def _openai(kind: str, content: str, made: int, last: bool) -> str:
    head = f'data: {{"id":"1","object":"{kind}","model":"m"'
    reason = '"length"' if last else "null"
    event = f'{head},"choices":[{{"index":0,{content},"finish_reason":{reason}}}]}}\n\n'
    usage = f'"usage":{{"prompt_tokens":5,"completion_tokens":{made},"total_tokens":{made + 5}}}'
    return f'{event}{head},"choices":[],{usage}}}\n\ndata: [DONE]\n\n' if last else event


def _text(text: str, made: int, last: bool) -> str:
    return _openai("text_completion", f'"text":"{text}"', made, last)


def _chat(text: str, made: int, last: bool) -> str:
    return _openai("chat.completion.chunk", f'"delta":{{"content":"{text}"}}', made, last)


async def serve(plan: Plan) -> None:
    log: dict[str, tuple[int, int]] = {}
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(plan, log), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until its parent goes


if __name__ == "__main__":
    uvloop.run(serve(Plan.parse(sys.argv[1])))
