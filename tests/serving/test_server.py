from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.conftest import ServeRepository
from tests.serving.models import ECHO, model_repository
from trtspec.errors import PortInUse, ServerError, ServerNotReady
from trtspec.serving import RunningServer, free_ports, repository_plan, start_server
from trtspec.serving.health import stub_processes
from trtspec.serving.ports import is_free

pytestmark = pytest.mark.triton

TEXTS = ["plain", "", "ünïcödé 🙂 \u0000 zero", "x" * 70_000]


@pytest.fixture(scope="module")
def echo(serve_repository: ServeRepository, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serve_repository(model_repository(tmp_path_factory.mktemp("echo") / "repo")) as server:
        yield server


def start(folder: Path, code: str = ECHO, **options: Any) -> RunningServer:
    """A server that the test itself stops."""
    repository = model_repository(folder / "repo", code, **options)
    return start_server(repository_plan(repository, free_ports(), log=folder / "server.log"), ready_timeout=60)


def wait_until(condition: Any, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return bool(condition())


def infer_http(server: RunningServer, texts: list[str]) -> list[str]:
    tensor = {"name": "text_input", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
    request = urllib.request.Request(
        f"http://{server.http_url}/v2/models/echo/infer", json.dumps({"inputs": [tensor]}).encode()
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        data: list[str] = json.load(answer)["outputs"][0]["data"]
    return data


def infer_grpc(server: RunningServer, texts: list[str]) -> list[bytes]:
    from tritonclient import grpc

    tensor = grpc.InferInput("text_input", [len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=np.object_))
    with grpc.InferenceServerClient(server.grpc_url) as client:
        answer = client.infer("echo", [tensor], client_timeout=20)
    return list(answer.as_numpy("text_output"))


def test_text_tensors_arrive_intact_over_grpc(echo: RunningServer) -> None:
    assert infer_grpc(echo, TEXTS) == [text.encode() for text in TEXTS]


def test_text_tensors_arrive_intact_over_http(echo: RunningServer) -> None:
    assert infer_http(echo, TEXTS) == TEXTS


def test_metrics_are_served(echo: RunningServer) -> None:
    with urllib.request.urlopen(f"http://{echo.host}:{echo.ports.metrics}/metrics", timeout=20) as answer:
        assert b"nv_inference_request_success" in answer.read()


def test_it_listens_on_loopback_only(echo: RunningServer) -> None:
    listening = [c for c in psutil.Process(echo.pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {c.laddr.port for c in listening} == {port for _, port in echo.ports.items()}
    assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} == {"127.0.0.1"}


def test_the_repository_stays_as_it_was(echo: RunningServer) -> None:
    # the stub's interpreter is isolated: nothing keeps it from caching byte code beside model.py
    files = {p for p in echo.plan.repository.rglob("*") if p.is_file() and p.parent.name != "__pycache__"}
    assert {p.relative_to(echo.plan.repository).as_posix() for p in files} == {"echo/config.pbtxt", "echo/1/model.py"}


def test_models_run_in_this_environment(tmp_path: Path, serve_repository: ServeRepository) -> None:
    code = ECHO.replace(
        'text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy()',
        "import sys, json, numpy, trtspec; "
        "text = numpy.array([json.dumps([sys.prefix, trtspec.__file__, numpy.__version__])], dtype=numpy.object_)",
    )
    with serve_repository(model_repository(tmp_path / "repo", code)) as server:
        prefix, source, numpy_version = json.loads(infer_http(server, [""])[0])
    import trtspec

    assert (prefix, source, numpy_version) == (sys.prefix, trtspec.__file__, np.__version__)


def test_models_import_nothing_from_the_current_folder(
    tmp_path: Path, serve_repository: ServeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    with serve_repository(model_repository(tmp_path / "repo", "import numpy" + ECHO)) as server:
        assert infer_http(server, ["a"]) == ["a"]


def test_two_servers_at_once(echo: RunningServer, serve_repository: ServeRepository, tmp_path: Path) -> None:
    with serve_repository(model_repository(tmp_path / "repo")) as other:
        assert other.plan.shm_prefix != echo.plan.shm_prefix
        assert infer_http(other, ["b"]) == ["b"]
        assert infer_http(echo, ["a"]) == ["a"]
    assert echo.problem() is None
    assert infer_http(echo, ["still here"]) == ["still here"]


@pytest.mark.parametrize("host", ["localhost", "::1", "0.0.0.0"])
def test_other_addresses_to_listen_on(tmp_path: Path, host: str) -> None:
    repository = model_repository(tmp_path / "repo")
    plan = repository_plan(repository, free_ports(host), log=tmp_path / "log", host=host)
    with start_server(plan, ready_timeout=30) as server:
        assert infer_http(server, ["a"]) == ["a"]
        assert infer_grpc(server, ["a"]) == [b"a"]
        server.stop(now=True)


def test_a_metrics_port_taken_at_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = repository_plan(model_repository(tmp_path / "repo"), free_ports(), log=tmp_path / "log")
    monkeypatch.setattr("trtspec.serving.server.check_free", lambda *_: None)
    monkeypatch.setattr("trtspec.serving.server._METRICS_WAIT", 0.5)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", plan.ports.metrics))
        with pytest.raises(ServerNotReady, match=f"metrics port {plan.ports.metrics}") as caught:
            start_server(plan, ready_timeout=30)
    assert caught.value.cause == "a port was taken by another process while the server started"


def test_stop_ends_everything_and_frees_the_ports(tmp_path: Path) -> None:
    server = start(tmp_path)
    processes = [server.pid, *stub_processes(server.pid)]
    assert len(processes) == 2
    server.stop()
    assert not any(psutil.pid_exists(pid) for pid in processes)
    assert all(is_free("127.0.0.1", port) for _, port in server.ports.items())
    assert not list(Path("/dev/shm").glob(f"{server.plan.shm_prefix}*"))
    assert not server.alive()
    assert server.problem() == "the server ended (exit code 0)"
    server.stop()


def test_stop_now_frees_shared_memory_too(tmp_path: Path) -> None:
    server = start(tmp_path)
    assert list(Path("/dev/shm").glob(f"{server.plan.shm_prefix}*"))
    begin = time.monotonic()
    server.stop(now=True)
    assert time.monotonic() - begin < 3
    assert not list(Path("/dev/shm").glob(f"{server.plan.shm_prefix}*"))


def test_requests_in_flight_finish_before_the_server_stops(tmp_path: Path) -> None:
    import threading

    server = start(tmp_path, ECHO.replace("responses = []", "import time; time.sleep(1.5); responses = []"))
    answers: list[list[str]] = []
    request = threading.Thread(target=lambda: answers.append(infer_http(server, ["slow"])))
    request.start()
    time.sleep(0.5)
    server.stop()
    request.join(20)
    assert answers == [["slow"]]


def test_a_model_that_never_stops_is_killed(tmp_path: Path) -> None:
    code = ECHO + "\n    def finalize(self):\n        import time\n        time.sleep(600)\n"
    server = start(tmp_path, code)
    stubs = stub_processes(server.pid)
    server.stop()
    assert not any(psutil.pid_exists(pid) for pid in stubs)


def test_a_dead_model_process_is_noticed(tmp_path: Path) -> None:
    with start(tmp_path) as server:
        assert server.alive()
        (stub,) = stub_processes(server.pid)
        os.kill(stub, signal.SIGKILL)
        assert wait_until(lambda: not server.alive(), 5)
        assert server.problem() == "the process of model echo died"
        assert not server.exited()
        server.stop(now=True)


def test_a_killed_server_is_noticed(tmp_path: Path) -> None:
    server = start(tmp_path)
    stubs = stub_processes(server.pid)
    os.kill(server.pid, signal.SIGKILL)
    assert wait_until(server.exited, 5)
    assert server.problem() == "the server ended (signal 9)"
    assert not any(psutil.pid_exists(pid) for pid in stubs)


def test_a_broken_model_gives_log_cause_and_fix(tmp_path: Path) -> None:
    with pytest.raises(ServerNotReady) as caught:
        start(tmp_path, "import nosuchmodule\n" + ECHO)
    error = caught.value
    assert error.cause == "the model's code imports nosuchmodule, which is not installed in this environment"
    assert error.fix == "pip install 'trtspec[local]'"
    assert any("No module named 'nosuchmodule'" in line for line in error.log_tail)
    assert len(error.log_tail) <= 20
    assert not any(line.startswith(("|", "+")) for line in error.log_tail)
    assert str(tmp_path / "server.log") in error.message


def test_a_backend_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ServerNotReady) as caught:
        start(tmp_path, backend="tensorrtllm")
    assert caught.value.cause is not None
    assert "only the Python backend" in caught.value.cause


def test_a_damaged_configuration(tmp_path: Path) -> None:
    repository = model_repository(tmp_path / "repo")
    (repository / "echo" / "config.pbtxt").write_text("name: { what")
    with pytest.raises(ServerNotReady) as caught:
        start_server(repository_plan(repository, free_ports(), log=tmp_path / "log"), ready_timeout=30)
    assert caught.value.cause == "a config.pbtxt in the repository is damaged"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ServerNotReady) as caught:
        start(tmp_path, "open('/nowhere/engine/config.json')\n" + ECHO)
    assert caught.value.cause == "a file that the repository points to is missing: /nowhere/engine/config.json"


def test_a_model_killed_while_loading(tmp_path: Path) -> None:
    with pytest.raises(ServerNotReady) as caught:
        start(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n" + ECHO)
    assert caught.value.cause is not None
    assert "died while it was loaded" in caught.value.cause


def test_a_server_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    repository = model_repository(tmp_path / "repo", "import time; time.sleep(600)\n" + ECHO)
    plan = repository_plan(repository, free_ports(), log=tmp_path / "log")
    begin = time.monotonic()
    with pytest.raises(ServerNotReady, match=r"the server was not ready after 2\.0 s"):
        start_server(plan, ready_timeout=2)
    assert time.monotonic() - begin < 10
    assert all(is_free("127.0.0.1", port) for _, port in plan.ports.items())


def test_a_port_in_use_is_found_before_anything_starts(echo: RunningServer, tmp_path: Path) -> None:
    plan = repository_plan(model_repository(tmp_path / "repo"), echo.ports, log=tmp_path / "server.log")
    with pytest.raises(PortInUse) as caught:
        start_server(plan, ready_timeout=5)
    assert caught.value.port == echo.ports.http
    assert caught.value.holder == f"tritonserver (pid {echo.pid})"
    assert "--http-port" in (caught.value.fix or "")
    assert not plan.log.exists()
    assert infer_http(echo, ["untouched"]) == ["untouched"]


def test_an_empty_repository(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="holds no model"):
        start_server(repository_plan(tmp_path, free_ports(), log=tmp_path / "log"), ready_timeout=5)


def test_a_huge_previous_log_is_kept_aside(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("wb") as stream:
        stream.truncate(20 << 30)
    server = start(tmp_path)
    server.stop(now=True)
    assert log.stat().st_size < 1 << 20
    assert (tmp_path / "server.log.1").stat().st_size == 20 << 30


CHILD = """
import sys, time
from pathlib import Path
from trtspec.serving import free_ports, repository_plan, start_server
plan = repository_plan(Path(sys.argv[1]), free_ports(), log=Path(sys.argv[2]))
import threading
# from a thread that ends: the server must live on
servers = []
thread = threading.Thread(target=lambda: servers.append(start_server(plan, ready_timeout=60)))
thread.start()
thread.join()
print(servers[0].pid, plan.ports.http, plan.ports.grpc, plan.shm_prefix, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path, sign: int) -> None:
    repository = model_repository(tmp_path / "repo")
    argv = [sys.executable, "-c", CHILD, str(repository), str(tmp_path / "log")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        pid, http, grpc, prefix = parent.stdout.readline().split()
        processes = [int(pid), *stub_processes(int(pid))]
        time.sleep(0.5)
        assert len(processes) == 2
        assert all(psutil.pid_exists(pid) for pid in processes)
        parent.send_signal(sign)
        parent.wait(10)
    assert wait_until(lambda: not any(psutil.pid_exists(pid) for pid in processes), 10)
    assert wait_until(lambda: all(is_free("127.0.0.1", int(port)) for port in (http, grpc)), 3)
    assert wait_until(lambda: not list(Path("/dev/shm").glob(f"{prefix}*")), 3)


def test_the_server_ends_with_its_supervisor(tmp_path: Path) -> None:
    server = start(tmp_path)
    processes = [server.pid, *stub_processes(server.pid)]
    supervisor = psutil.Process(server.pid).ppid()
    os.kill(supervisor, signal.SIGKILL)
    assert wait_until(lambda: not any(psutil.pid_exists(pid) for pid in processes), 10)
    assert not server.alive()
    server.stop()
    for region in Path("/dev/shm").glob(f"{server.plan.shm_prefix}*"):
        region.unlink()
