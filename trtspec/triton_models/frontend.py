"""`tensorrt_llm_bls`: text in, text out; the same file serves both arms.

Several requests are in work at a time: Triton calls `execute` again while an earlier call awaits, and every inner
request waits in a thread. Needs numpy and tokenizers (or transformers) only, and the files beside it.
"""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import triton_python_backend_utils as pb_utils

if TYPE_CHECKING:
    from trtspec.speculation import Cancelled, Generation, LeafError, Limits, Models, fixed_length
    from trtspec.triton_models.frontend_inputs import (
        Deployment,
        Request,
        RequestError,
        parse_parameters,
        read_request,
        refuse_unknown_parameters,
    )
    from trtspec.triton_models.frontend_leaves import Context, DraftModel, Runtime, TargetModel
    from trtspec.triton_models.frontend_outputs import Responses
    from trtspec.triton_models.frontend_tokenizer import load_tokenizer
else:
    from frontend_inputs import Deployment, RequestError, parse_parameters, read_request, refuse_unknown_parameters
    from frontend_leaves import Context, DraftModel, Runtime, TargetModel
    from frontend_outputs import Responses
    from frontend_tokenizer import load_tokenizer
    from speculation import Cancelled, Generation, LeafError, Limits, Models, fixed_length

_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
# Asking Triton whether a request was cancelled is a message to another process: not more often than this (seconds).
_CANCEL_CHECK = 0.02
# Input tensors that steer the choice of a token but keep it greedy; the draft gets these alone.
_SHAPING = ("repetition_penalty", "presence_penalty", "frequency_penalty")


class TritonPythonModel:
    """What Triton's Python backend loads."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the model parameters and the tokenizer."""
        config = json.loads(args["model_config"])
        values = {key: value["string_value"] for key, value in config["parameters"].items()}
        self._deployment = Deployment.from_parameters(values)
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._tokenizer = load_tokenizer(Path(self._deployment.tokenizer_dir))
        self._runtime = Runtime()

    async def execute(self, requests: list[Any]) -> None:
        """Serve all `requests` at once; answers go through each request's own sender."""
        await asyncio.gather(*(self._serve(request) for request in requests))

    def finalize(self) -> None:
        """Let go of the threads."""
        self._runtime.close()

    async def _serve(self, request: Any) -> None:
        sender = request.get_response_sender()
        try:
            await self._answer(request, sender)
        except RequestError as error:
            _send_error(sender, str(error), pb_utils.TritonError.INVALID_ARG)
        except LeafError as error:
            _send_error(sender, f"target_failed: {error}", pb_utils.TritonError.INTERNAL)
        except Cancelled as error:
            _send_error(sender, f"cancelled: {error}", pb_utils.TritonError.CANCELLED)
        except Exception as error:  # noqa: BLE001 - the client gets one line, the server's log the rest
            pb_utils.Logger.log_error(traceback.format_exc())
            line = " ".join(f"internal: {type(error).__name__}: {error}".split())
            _send_error(sender, line, pb_utils.TritonError.INTERNAL)

    async def _answer(self, raw: Any, sender: Any) -> None:
        refuse_unknown_parameters(parse_parameters(raw.parameters()), self._inputs)
        tensors = {tensor.name(): tensor.as_numpy() for tensor in raw.inputs()}
        request = read_request(tensors, self._deployment)
        prompt = self._tokenizer.encode_prompt(request.text)
        responses = Responses(
            prompt,
            request.num_draft_tokens,
            details=request.details,
            left_out=request.left_out,
            prefix=request.text if request.with_prompt else "",
        )
        generation = self._generation(request, prompt)
        async with aclosing(generation.chunks(_throttled(sender.is_cancelled))) as chunks:
            async for chunk in chunks:
                responses.add(chunk)
                if request.stream or chunk.finish_reason:
                    _send(sender, responses.arrays(chunk), final=bool(chunk.finish_reason))

    def _generation(self, request: Request, prompt: list[int]) -> Generation:
        deployment = self._deployment
        limits = Limits(
            max_tokens=self._budget(request, prompt),
            end_ids=request.end_ids,
            stop_ids=self._stop_ids(request),
            stop_words=request.stop_words,
            max_draft_length=deployment.max_draft_length,
            vocab_size=deployment.vocab_size,
            draft_timeout=deployment.draft_timeout,
        )
        context = self._context(request, prompt, limits)
        target = TargetModel(self._runtime, deployment.target_model, context)
        draft = self._draft(request, context)
        return Generation(
            prompt, limits, Models(target, self._tokenizer.decode, draft), fixed_length(request.num_draft_tokens)
        )

    def _budget(self, request: Request, prompt: list[int]) -> int:
        """max_tokens, cut to what the engine's sequence length leaves."""
        room = self._deployment.max_seq_len - len(prompt)
        if not prompt:
            raise RequestError("invalid_request", "text_input has no tokens")
        if room < 1:
            limit = f"the engine's limit is {self._deployment.max_seq_len} for prompt and answer"
            raise RequestError("prompt_too_long", f"the prompt has {len(prompt)} tokens; {limit}")
        return min(request.max_tokens, room)

    def _stop_ids(self, request: Request) -> frozenset[int]:
        """Stop words that are special tokens: these have no text to be matched."""
        ids = (self._tokenizer.special_id(word) for word in request.stop_words)
        return frozenset(token for token in ids if token is not None)

    def _context(self, request: Request, prompt: list[int], limits: Limits) -> Context:
        return Context(
            prompt_length=len(prompt),
            end_ids=limits.end_ids,
            stop_ids=tuple(sorted(limits.stop_ids - set(limits.end_ids))),
            pad_id=request.pad_id,
            min_tokens=request.min_tokens,
            bad_words=[ids for word in request.bad_words for ids in self._tokenizer.word_variants(word)],
            sampling=request.sampling,
        )

    def _draft(self, request: Request, context: Context) -> DraftModel | None:
        if not request.num_draft_tokens:
            return None
        greedy = {name: array for name, array in context.sampling.items() if name in _SHAPING}
        return DraftModel(self._runtime, self._deployment.draft_model, context.with_sampling(greedy))


def _throttled(is_cancelled: Callable[[], bool]) -> Callable[[], bool]:
    last = -_CANCEL_CHECK

    def check() -> bool:
        nonlocal last
        now = time.monotonic()
        if now - last < _CANCEL_CHECK:
            return False
        last = now
        return bool(is_cancelled())

    return check


def _send(sender: Any, arrays: Mapping[str, Any], *, final: bool) -> None:
    tensors = [pb_utils.Tensor(name, array) for name, array in arrays.items()]
    sender.send(pb_utils.InferenceResponse(tensors), flags=_FINAL if final else 0)


def _send_error(sender: Any, text: str, code: Any) -> None:
    response = pb_utils.InferenceResponse(output_tensors=[], error=pb_utils.TritonError(text, code))
    sender.send(response, flags=_FINAL)
