"""NVIDIA's stock models: what they are sent, and what their answers are worth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.wire.collecting import collect
from tests.wire.fake_triton import FakeTriton, Reply
from tests.wire.sse_server import Asked, SseServer, Step, events, json_answer
from trtspec.errors import RequestFailed
from trtspec.wire import Chunk, FrontendRequest, detect_target

STOCK = json.loads((Path(__file__).parent.parent / "facts" / "triton_stock_models.json").read_text())
REQUEST = FrontendRequest("Say hi", 8)
LLMAPI_INPUTS = (
    *("text_input", "streaming", "sampling_param_temperature", "sampling_param_top_k", "sampling_param_top_p"),
    *("sampling_param_frequency_penalty", "sampling_param_presence_penalty", "sampling_param_max_tokens"),
    *("sampling_param_stop", "sampling_param_seed", "sampling_param_exclude_input_from_output"),
    *("sampling_param_return_perf_metrics", "return_finish_reason"),
)


def metadata(model: str, version: str) -> dict[str, Any]:
    """What the server declares for a stock model of that release."""
    gone = "until 0.19" if version != "0.19" else "since 0.20"
    inputs = [name for name, _, _, *marks in STOCK[model]["inputs"] if gone not in marks]
    if version == "0.19":
        inputs = [name for name in inputs if not name.startswith("return_num")]
    return {
        "inputs": [{"name": name, "datatype": "BYTES"} for name in inputs],
        "outputs": [{"name": name, "datatype": "BYTES"} for name, *_ in STOCK[model]["outputs"]],
    }


LLMAPI = {"inputs": [{"name": name, "datatype": "BYTES"} for name in LLMAPI_INPUTS], "outputs": []}


def server(name: str, tensors: Any, *documents: Any, configuration: Any = None) -> SseServer:
    """A Triton that has one stock model, which answers with `documents`."""

    def script(asked: Asked) -> Iterable[Step]:
        if asked.path.endswith("/generate_stream"):
            return events(*documents)
        pages = {f"/v2/models/{name}": tensors, f"/v2/models/{name}/config": configuration or {}}
        pages |= {"/v2/health/live": {}, f"/v2/models/{name}/ready": {}, "/v2": {"name": "triton"}}
        page = pages.get(asked.path)
        return json_answer({"error": "Request for unknown model"}, 400) if page is None else json_answer(page)

    return SseServer(script)


def bls(*documents: Any, version: str = "1.0", request: FrontendRequest = REQUEST) -> tuple[list[Chunk], Any]:
    with server("tensorrt_llm_bls", metadata("tensorrt_llm_bls", version), *documents) as there:
        return collect(there.url, request), there.asked[-1].document


def test_one_answer_of_the_bls_with_a_draft() -> None:
    request = FrontendRequest("Say hi", 8, num_draft_tokens=3, seed=5, min_tokens=1)
    counts = {"total_draft_tokens": 3, "total_accepted_draft_tokens": 2, "num_output_tokens": 0}
    chunks, sent = bls({"text_output": "Say hi to all", **counts}, request=request)
    assert [chunk.text for chunk in chunks] == [" to all", ""]  # the prompt comes back with the answer
    # its counts are of the last round only, those of tokens never filled
    assert chunks[0].counters is None
    assert chunks[0].tokens is None
    wishes = {"return_perf_metrics": True, "return_num_input_tokens": True, "return_num_output_tokens": True}
    assert sent == {"text_input": "Say hi", "max_tokens": 8, "stream": False, "num_draft_tokens": 3, "seed": 5,
                    "min_tokens": 1, **wishes}  # fmt: skip


def test_a_baseline_streams() -> None:
    perf = {"arrival_time_ns": 10, "first_scheduled_time_ns": 20, "first_token_time_ns": 30, "last_token_time_ns": 0}
    chunks, sent = bls(
        {"text_output": "a", "num_output_tokens": 1}, {"text_output": "b", "num_output_tokens": 3, **perf}
    )
    assert sent["stream"] is True
    assert [(chunk.text, chunk.tokens) for chunk in chunks if chunk.text] == [("a", 1), ("b", 2)]
    stamps = chunks[1].perf
    assert stamps is not None
    assert (stamps.arrival_ns, stamps.first_scheduled_ns, stamps.first_token_ns) == (10, 20, 30)
    assert stamps.last_token_ns is None  # 0 is: not measured


def test_older_releases_have_older_names() -> None:
    request = FrontendRequest("a", 8, seed=5, min_tokens=2)
    _, sent = bls({"text_output": "b"}, version="0.19", request=request)
    assert (sent["random_seed"], sent["min_length"]) == (5, 2)
    assert not {"seed", "min_tokens", "return_num_output_tokens"} & set(sent)


def test_what_a_model_has_no_input_for_is_refused_not_dropped() -> None:
    with server("ensemble", metadata("ensemble", "1.0"), {"text_output": "a"}) as there:
        assert collect(there.url, REQUEST)
        with pytest.raises(RequestFailed, match="no input num_draft_tokens"):
            collect(there.url, FrontendRequest("a", 8, num_draft_tokens=3))
        with pytest.raises(RequestFailed, match="takes no chats"):
            collect(there.url, FrontendRequest("", 8, messages="[]"))


def test_an_error_in_the_answer() -> None:
    with pytest.raises(RequestFailed, match="Stub process"):
        bls({"error": "Stub process is not healthy"})
    with pytest.raises(RequestFailed, match="empty"):
        bls({"text_output": "Say hi"})


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"model_transaction_policy": {"decoupled": False}}, "not decoupled"),
        ({"model_transaction_policy": {"decoupled": True}}, None),
        (
            {
                "model_transaction_policy": {"decoupled": True},
                "parameters": {"tensorrt_llm_draft_model_name": {"string_value": "tensorrt_llm_draft"}},
            },
            "answers a speculative request once",
        ),
    ],
)
def test_one_piece_is_known_from_the_configuration(configuration: Any, expected: str | None) -> None:
    tensors = metadata("tensorrt_llm_bls", "1.0")
    with server("tensorrt_llm_bls", tensors, configuration=configuration) as there:
        facts = asyncio.run(detect_target(there.url))
    assert facts.kind == "nvidia-bls"
    if expected is None:
        assert facts.one_piece is None
    else:
        assert expected in (facts.one_piece or "")


def test_the_llmapi_model_sends_the_text_so_far_and_numbers_as_texts() -> None:
    request = FrontendRequest("a", 8, temperature=0.5, stop_words=("x",), seed=3)
    last = {"text_output": "Hello 🎉!", "finish_reason": "stop", "total_draft_tokens": "6",
            "total_accepted_draft_tokens": "4", "arrival_time_ns": "10", "first_token_time_ns": "30"}  # fmt: skip
    documents = [
        {"text_output": "Hel", "finish_reason": "None"},
        {"text_output": "Hello \ufffd", "finish_reason": "None"},
    ]
    with server("tensorrt_llm", LLMAPI, *documents, last) as there:
        chunks = collect(there.url, request)
    assert [chunk.text for chunk in chunks] == ["Hel", "lo \ufffd", "🎉!", ""]
    assert [chunk.finish_reason for chunk in chunks] == ["", "", "stop", ""]
    assert [chunk.tokens for chunk in chunks] == [None] * 4
    counters, perf = chunks[2].counters, chunks[2].perf
    assert counters is not None
    assert perf is not None
    assert (counters.num_draft_tokens, counters.num_accepted_tokens) == (6, 4)
    assert (perf.arrival_ns, perf.first_scheduled_ns, perf.first_token_ns) == (10, None, 30)
    assert there.asked[-1].document == {
        "text_input": "a", "streaming": True, "sampling_param_max_tokens": 8, "sampling_param_temperature": 0.5,
        "sampling_param_seed": 3, "sampling_param_stop": ["x"], "sampling_param_exclude_input_from_output": True,
        "sampling_param_return_perf_metrics": True, "return_finish_reason": True,
    }  # fmt: skip


def test_the_llmapi_model_has_no_draft_length_and_needs_an_end() -> None:
    with server("tensorrt_llm", LLMAPI, {"text_output": "a", "finish_reason": "None"}) as there:
        with pytest.raises(RequestFailed, match=r"model\.yaml"):
            collect(there.url, FrontendRequest("a", 8, num_draft_tokens=3))
        with pytest.raises(RequestFailed, match="no finish_reason"):
            collect(there.url, REQUEST)


def test_stock_models_over_grpc() -> None:
    declared = tuple(name for name, *_ in STOCK["tensorrt_llm_bls"]["inputs"])
    with FakeTriton(lambda _: [Reply(1, "Say hi there", final=True)], declared=declared) as there:
        chunks = collect(there.url, FrontendRequest("Say hi", 8, num_draft_tokens=2), kind="nvidia-bls")
        assert [chunk.text for chunk in chunks] == [" there"]
        assert there.received[0].inputs["stream"] == [False]
        collect(there.url, REQUEST, kind="nvidia-ensemble")
        assert there.received[1].model == "ensemble"


def test_llmapi_over_grpc_has_no_batch_dimension() -> None:
    script = [Reply(1, "hi", finish_reason="stop", final=True)]
    with FakeTriton(lambda _: script, declared=LLMAPI_INPUTS) as there:
        assert [chunk.text for chunk in collect(there.url, REQUEST, kind="llmapi")] == ["hi"]
    (received,) = there.received
    assert received.model == "tensorrt_llm"
    assert received.shapes["text_input"] == (1,)
    assert received.inputs["sampling_param_max_tokens"] == [8]
