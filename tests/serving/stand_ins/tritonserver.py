import http.server
import json
import os
import pathlib
import signal
import sys
import threading
import time

FOLDER = globals().get("FOLDER", "")
NAMES = ("TRTLLM_ORCHESTRATOR", "TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES", "OMPI_COMM_WORLD_RANK", "HF_HUB_OFFLINE")
state: dict[str, str] = {}
keys: list[str] = []


def note(name: str, text: str) -> None:
    with pathlib.Path(FOLDER, name).open("a") as stream:
        stream.write(text + "\n")


def flags(name: str) -> list[str]:
    return [word.partition("=")[2] for word in sys.argv[1:] if word.startswith(f"--{name}=")]


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status: int, data: object = None) -> None:
        body = b"" if data is None else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = self.path.strip("/").split("/")
        if self.path == "/metrics":
            return self.answer(200)
        if self.path in ("/v2", "/v2/health/live"):
            return self.answer(200, {"name": "triton", "version": "2.71.0"})
        if self.path == "/v2/health/ready":
            return self.answer(200 if all(value == "READY" for value in state.values()) else 400)
        ready = len(parts) > 2 and state.get(parts[2]) == "READY"
        return self.answer(200 if ready else 400, {"name": parts[-1], "versions": ["1"]} if ready else None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        parts = self.path.strip("/").split("/")
        if parts[1] == "repository" and keys and self.headers.get("trtspec-admin-key") != keys[0]:
            return self.answer(403, {"error": "This API is restricted"})
        if parts[-1] == "index":
            return self.answer(200, [{"name": name, "state": value} for name, value in state.items()])
        if parts[-1] in ("load", "unload"):
            note("events", f"{parts[-1]} {parts[3]}")
            if os.environ.get("STAND_IN_REFUSE") == parts[3]:
                return self.answer(400, {"error": f"load failed for model '{parts[3]}': no engine\nAt: somewhere"})
            state[parts[3]] = "READY" if parts[-1] == "load" else "UNAVAILABLE"
            return self.answer(200)
        if parts[-1] == "generate_stream":
            note("events", f"generate {json.dumps(body)}")
            data = b'data: {"text_output": "x"}\n\n'
            if os.environ.get("STAND_IN_BROKEN"):
                data = b'data: {"error": "internal: no answer"}\n\n'
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return None
        return self.answer(404)


def serve(host: str, port: int) -> None:
    http.server.ThreadingHTTPServer.allow_reuse_address = True
    server = http.server.ThreadingHTTPServer((host, port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main() -> None:
    env = {name: os.environ[name] for name in NAMES if name in os.environ}
    note("calls.jsonl", json.dumps({"program": "tritonserver", "argv": sys.argv, "env": env}))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    if text := os.environ.get("STAND_IN_FAIL"):
        sys.exit(text)
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0":
        if found := flags("http-restricted-api"):
            keys.append(found[0].rpartition("=")[2])
        repository = pathlib.Path(flags("model-repository")[0])
        start = flags("load-model")
        explicit = flags("model-control-mode") == ["explicit"]
        for path in repository.glob("*/config.pbtxt"):
            loaded = not explicit or "*" in start or path.parent.name in start
            state[path.parent.name] = "READY" if loaded else "UNAVAILABLE"
        for protocol in ("http", "grpc", "metrics"):
            serve(flags(f"{protocol}-address")[0], int(flags(f"{protocol}-port")[0]))
    while not ended.wait(0.05):
        time.sleep(0)
    note("events", "terminated")


main()
