from __future__ import annotations

import re
from pathlib import Path

import pytest

from trtspec.serving.causes import CAUSES, table_markdown
from trtspec.serving.diagnosis import diagnose, is_hopeless, log_tail

# lines as Triton 2.51 wrote them
LOG = """\
W1129 17:44:19.8 131 pinned_memory_manager.cc:273] "Unable to allocate pinned system memory"
E1129 17:44:19.8 131 server.cc:241] "CudaDriverHelper has not been initialized."
I1129 17:44:19.843533 131 model_lifecycle.cc:472] "loading: echo:1"
{line}
I1129 17:44:20.1 131 server.cc:604]\u0020
+------------------+------+
| Repository Agent | Path |
+------------------+------+

I1129 17:44:20.1 131 tritonserver.cc:2598]\u0020
| server_id        | triton |
I1129 17:36:31.2 131 server.cc:305] "Waiting for in-flight requests to complete."
error: creating server: Internal - failed to load all models
"""

CASES = {
    "E1129 17:44:20.198211 131 main.cc:257] \"failed to start HTTP service: Unavailable - Socket '127.0.0.1:17446' "
    'already in use "': "a port was taken",
    "E1130 00:41:58.071043948   19360 ssl_transport_security.cc:780]        Invalid private key.\n"
    "E1130 00:41:58.074858 19360 main.cc:245] failed to start GRPC service: Unavailable - Socket '127.0.0.1:8001' "
    "already in use": "certificate and key",
    "A module that was compiled using NumPy 1.x cannot be run in\nNumPy 2.2.1 as it may crash.": "numpy 2",
    "/x/triton_python_backend_stub: error while loading shared libraries: libpython3.10.so.1.0: cannot open shared "
    "object file: No such file or directory": "libpython3.10.so.1.0 is not installed",
    "/x/tritonserver: error while loading shared libraries: libfoo.so.1: cannot open shared object file": "libfoo.so.1",
    'E1129 17:45:12.3 131 backend_model.cc:692] "ERROR: Failed to create instance: Unable to initialize shared memory '
    "key 'trtspec-a' to requested size (1048576 bytes). Error: No space left on device\"": "/dev/shm is too small",
    "RuntimeError: [enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory": "not enough memory",
    "I1129 17:36:31.2 621 pb_stub.cc:298]  Failed to initialize Python stub: ModuleNotFoundError: No module named "
    "'torch'": "imports torch, which is not installed",
    "ImportError: cannot import name 'Loop' from 'speculation' (/repo/speculation/__init__.py)": "cannot import name",
    "E1129 1 1 model_lifecycle.cc:642] \"failed to load 'm' version 1: Invalid argument: unable to find backend "
    "library for backend 'tensorrtllm', try specifying runtime.\"": "only the Python backend",
    "E1130 1 1 backend_model.cc:692] ERROR: Failed to create instance: CheckpointError: /e/draft_vocabulary.json: has "
    "ids outside the vocabulary (0 to 319)": "cannot load an engine: /e/draft_vocabulary.json: has ids outside",
    "FileNotFoundError: [Errno 2] No such file or directory: '/e/config.json'": "is missing: /e/config.json",
    "PermissionError: [Errno 13] Permission denied: '/e/model.safetensors'": "may not be read",
    'E1129 model_repository_manager.cc:1] "failed to read text proto from /repo/m/config.pbtxt"': "config.pbtxt",
    "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge": "weights are damaged",
    "Internal: Stub process 'echo_0_0' is not healthy.": "died while it was loaded",
    # from the threads that the table names
    "[TensorRT-LLM][ERROR] 6: The engine plan file is not compatible with this version of TensorRT, expecting library "
    "version 9.2.0.5 got 9.3.0.1, please rebuild.": "built with another TensorRT (this server's is 9.2.0.5, the "
    "engine's 9.3.0.1)",
    "[TRT] [E] 6: The engine plan file is generated on an incompatible device, expecting compute 8.0 got compute 8.9, "
    "please rebuild.": "another GPU architecture (compute 8.9; this GPU is 8.0)",
    "[TensorRT-LLM][ERROR] Assertion failed: Failed to deserialize cuda engine.": "an engine file cannot be read",
    "unexpected error when creating modelInstanceState: [json.exception.parse_error.101] parse error at line 1, "
    "column 1: syntax error while parsing value - unexpected end of input": "no readable engine",
    "[TensorRT-LLM][ERROR] Assertion failed: With communicationMode kLEADER, MPI worldSize is expected to be equal to "
    "tp*pp when participantIds are not specified": "another number of MPI ranks",
    "[TensorRT-LLM][ERROR] Assertion failed: MPI size 1 != TP size 2 * PP size 1": "number of MPI ranks",
    "[TensorRT-LLM][ERROR] Assertion failed: participantIds must be specified in this mode": "participant_ids do not "
    "fit",
    "There are not enough slots available in the system to satisfy the 6 slots": "wants a core for each rank",
    "[host:1] *** MPI_Comm_spawn failed": "could not start its workers",
    "ERROR: Failed to create instance: unexpected error when creating modelInstanceState: maxTokensInPagedKvCache must "
    "be large enough to process at least 1 sequence to completion": "does not hold one sequence",
    "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory": "a GPU "
    "ran out of memory",
    "[TensorRT-LLM][ERROR] Assertion failed: When KV cache block reuse is set, model has to be built with paged "
    "context FMHA support": "built without paged context FMHA",
    "Number of draft tokens (8) is larger than maximum number of draft tokens (5)": "more tokens were drafted",
    "worker_path parameter is specified, but this is no longer supported.": "older TensorRT-LLM",
    "[host:00123] Signal: Bus error (7)": "there was no room for",
    "/opt/tritonserver/bin/tritonserver: error while loading shared libraries: libnvinfer.so.10: cannot open shared "
    "object file": "libnvinfer.so.10 of TensorRT is not found",
    'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].': "no usable "
    "GPU",
    "OSError: Can't load tokenizer for '/gone/tokenizer'.": "tokenizer is not where",
    "Unable to find image 'nvcr.io/nvidia/tritonserver:99.01' locally": "docker has no such image",
    "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.": "docker's daemon",
    'docker: invalid mount config for type "bind": bind source path does not exist: /engines/target': "is not there: "
    "/engines/target",
}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


@pytest.mark.parametrize(("line", "cause"), CASES.items(), ids=list(CASES.values()))
def test_known_lines_have_a_cause_and_a_fix(log: Path, line: str, cause: str) -> None:
    log.write_text(LOG.format(line=line))
    found = diagnose(log, 1)
    assert found.cause is not None
    assert cause in found.cause
    assert found.fix


def test_every_known_cause_is_tried() -> None:
    used = {
        next(index for index, known in enumerate(CAUSES) if re.search(known.pattern, LOG.format(line=line)))
        for line in CASES
    }
    untested = {CAUSES[index].cause for index in set(range(len(CAUSES))) - used}
    assert untested == {
        "the Python backend's stub and this interpreter have different versions",
        "the engine that the repository points to is missing",
    }


def test_nothing_known_means_no_cause(log: Path) -> None:
    log.write_text('I1129 17:44:19.843533 131 model_lifecycle.cc:472] "loading: echo:1"\n')
    assert diagnose(log, 1).cause is None


def test_signal_9_is_want_of_memory_whatever_the_log_says(log: Path) -> None:
    log.write_text(LOG.format(line="No module named 'torch'"))
    assert "signal 9" in (diagnose(log, -9).cause or "")


def test_other_signals_are_named(log: Path) -> None:
    log.write_text("nothing")
    assert diagnose(log, -6).cause == "the server ended by signal 6"
    assert "signal 11" in (diagnose(log, -11).cause or "")


def test_the_tail_leaves_out_tables_and_noise(log: Path) -> None:
    log.write_text(LOG.format(line="the line that matters"))
    assert log_tail(log) == [
        "I1129 17:44:19.843533 131 model_lifecycle.cc:472] loading: echo:1",
        "the line that matters",
        "error: creating server: Internal - failed to load all models",
    ]


def test_messages_of_several_lines_are_unfolded(log: Path) -> None:
    log.write_text('E1129 17:45:12.3 131 x.cc:6] "failed to load \'m\': \\n\\nAt:\\n  /m.py(3): \\"f\\""\n')
    assert log_tail(log) == ["E1129 17:45:12.3 131 x.cc:6] failed to load 'm':", "At:", '  /m.py(3): "f"']


def test_only_the_end_of_a_huge_log_is_read(log: Path) -> None:
    with log.open("wb") as stream:
        stream.seek(30 << 30)
        stream.write(b"\n".join(b"line %d" % number for number in range(1000)))
    assert log_tail(log) == [f"line {number}" for number in range(980, 1000)]


def test_bytes_that_are_no_text_do_no_harm(log: Path) -> None:
    log.write_bytes(b"\xff\xfe\nfine\n")
    assert log_tail(log)[-1] == "fine"


_FRAGMENTS = sorted({word for known in CAUSES for word in re.findall(r"[A-Za-z_' ]{4,}", known.pattern)})


@pytest.mark.parametrize(
    "unit",
    ["x", "^", " ", "1", "\r", "\x1b", "\x1b]", "participant_ids ", "Unable to load a", "ImportError:",
     "Engine world size ", "E1129 1:1 1 a", "Failed to start x", "FileNotFoundError: '", "unable to find 'a' or ",
     "manifest for a\n", "y " * 2000],
    ids=repr,
)  # fmt: skip
def test_a_log_of_one_endless_line_is_read_all_the_same(log: Path, unit: str) -> None:
    """Patterns that look for a whole line take the square of its length."""
    log.write_text(unit * (400_000 // len(unit)))
    assert all(len(line) < 600 for line in diagnose(log, 1).tail)
    assert all(len(line) < 600 for line in log_tail(log))


def test_the_end_of_an_endless_line_counts(log: Path) -> None:
    log.write_text("." * 400_000 + " No module named 'torch'")
    assert "imports torch" in (diagnose(log, 1).cause or "")
    log.write_text(" ".join(_FRAGMENTS) * 100)
    assert diagnose(log, 1).cause is not None


def test_what_a_terminal_would_obey_is_left_out(log: Path) -> None:
    log.write_text("\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m \x9b1mbold\x08\x00\n10%\r55%\r100%\r\n")
    assert log_tail(log) == ["red bold", "100%"]
    log.write_text("No module named 'to\x1b[31mrch\x1b[0m'\n")
    assert "imports torch," in (diagnose(log, 1).cause or "")


def test_no_log_at_all(log: Path) -> None:
    assert log_tail(log) == []
    assert not is_hopeless(log)


def test_a_stub_without_its_library_is_hopeless(log: Path) -> None:
    log.write_text("stub: error while loading shared libraries: libpython3.9.so.1.0: cannot open shared object file\n")
    assert is_hopeless(log)


def test_the_document_shows_the_table() -> None:
    document = Path(__file__).parents[2] / "docs" / "serving.md"
    assert table_markdown() in document.read_text(encoding="utf-8"), "put table_markdown() into docs/serving.md"
