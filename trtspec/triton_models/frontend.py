"""`tensorrt_llm_bls`: text in, text out; the same file serves both arms.

`execute` returns at once; each request is a coroutine in a thread of its own (frontend_runtime.py). Needs numpy and
tokenizers (or transformers) only, and the files beside it; jinja2 for chat.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import triton_python_backend_utils as pb_utils

if TYPE_CHECKING:
    from trtspec.speculation import Cancelled, Expired, Generation, LeafError, Limits, Models, NgramDraft, Surroundings
    from trtspec.triton_models.frontend_calls import Calls
    from trtspec.triton_models.frontend_chat import ChatTemplate
    from trtspec.triton_models.frontend_deployment import Deployment, reachable
    from trtspec.triton_models.frontend_inputs import (
        Request,
        RequestError,
        parse_parameters,
        read_request,
        refuse_unknown_parameters,
    )
    from trtspec.triton_models.frontend_leaves import Context, DraftModel, Exchange, TargetModel
    from trtspec.triton_models.frontend_metrics import Metrics, RequestMeter
    from trtspec.triton_models.frontend_outputs import Responses
    from trtspec.triton_models.frontend_runtime import Task
    from trtspec.triton_models.frontend_tokenizer import load_tokenizer
else:
    from frontend_calls import Calls
    from frontend_chat import ChatTemplate
    from frontend_deployment import Deployment, reachable
    from frontend_inputs import RequestError, parse_parameters, read_request, refuse_unknown_parameters
    from frontend_leaves import Context, DraftModel, Exchange, TargetModel
    from frontend_metrics import Metrics, RequestMeter
    from frontend_outputs import Responses
    from frontend_runtime import Task
    from frontend_tokenizer import load_tokenizer
    from speculation import Cancelled, Expired, Generation, LeafError, Limits, Models, NgramDraft, Surroundings

_LONGEST_ERROR = 1000
_FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
# Input tensors that steer the choice of a token but keep it greedy; the draft gets these alone.
_SHAPING = ("repetition_penalty", "presence_penalty", "frequency_penalty")


class _Job:
    """One request while it is served, and the way back to its client."""

    def __init__(self, raw: Any, meter: RequestMeter) -> None:
        self.raw, self.meter = raw, meter
        self._sender = raw.get_response_sender()
        self._lock = threading.Lock()
        self._ended = False

    def is_cancelled(self) -> bool:
        """Whether the client has gone. Triton must not be asked once the last response is sent: it would crash."""
        with self._lock:
            return not self._ended and bool(self._sender.is_cancelled())

    def send(self, response: Any, result: str = "") -> bool:
        """Send a response, the last one when it has a result; False when that one has been sent already."""
        with self._lock:
            if self._ended:
                return False
            self._ended = bool(result)
            if result:
                self.meter.end(result)
            self._sender.send(response, flags=_FINAL if result else 0)
        return True


class TritonPythonModel:
    """What Triton's Python backend loads."""

    def initialize(self, args: Mapping[str, str]) -> None:
        """Read the model parameters and the tokenizer."""
        config = json.loads(args["model_config"])
        values = {key: value["string_value"] for key, value in config["parameters"].items()}
        self._deployment = Deployment.from_parameters(values)
        self._inputs = [tensor["name"] for tensor in config["input"]]
        folder = reachable(self._deployment.tokenizer_dir)
        self._tokenizer = load_tokenizer(folder)
        self._chat = ChatTemplate(folder)
        self._metrics = Metrics(config["name"], args["model_version"], lambda: self._calls.runtime.running)
        self._calls = Calls(self._metrics.export)
        self._calls.start()

    def execute(self, requests: list[Any]) -> None:
        """Start all `requests` and return; answers go through each request's own sender."""
        for raw in requests:
            job = _Job(raw, RequestMeter(self._metrics, Exchange()))
            limit = self._deployment.request_timeout
            deadline = None if limit is None else time.monotonic() + limit
            self._calls.runtime.start(Task(self._serve(job), job.is_cancelled, deadline))

    def finalize(self) -> None:
        """Let go of the threads."""
        self._calls.close()

    async def _serve(self, job: _Job) -> None:
        try:
            await self._answer(job)
        except RequestError as error:
            _fail(job, error.code, str(error), "INVALID_ARG")
        except LeafError as error:
            if error.reason == "busy":
                _fail(job, "busy", f"busy: {error}", "UNAVAILABLE")
            else:
                _fail(job, "target_failed", f"target_failed: {error}", "INTERNAL")
        except Expired as error:
            _fail(job, "timeout", f"timeout: {error}", "UNAVAILABLE")
        except Cancelled as error:
            _fail(job, "cancelled", f"cancelled: {error}", "CANCELLED")
        except Exception as error:  # noqa: BLE001 - the client gets one line, the server's log the rest
            pb_utils.Logger.log_error(traceback.format_exc())
            line = " ".join(f"internal: {type(error).__name__}: {error}".split())
            _fail(job, "internal", line, "INTERNAL")

    async def _answer(self, job: _Job) -> None:
        refuse_unknown_parameters(parse_parameters(job.raw.parameters()), self._inputs)
        arrays = {tensor.name(): tensor.as_numpy() for tensor in job.raw.inputs()}
        request = read_request(arrays, self._deployment)
        text, prompt = self._prompt(request)
        limits = self._limits(request, prompt)
        self._metrics.add("trtspec_prompt_tokens_total", len(prompt))
        longest = self._longest_draft(request)
        responses = Responses(
            prompt,
            longest,
            details=request.details,
            lookups=self._deployment.lookup,
            log_probs=job.meter.exchange.log_probs if request.log_probs else None,
            left_out=request.left_out,
            prefix=text if request.with_prompt else "",
        )
        generation = self._generation(request, prompt, limits, job.meter)
        async with aclosing(generation.chunks()) as chunks:
            async for chunk in chunks:
                responses.add(chunk)
                job.meter.progress(chunk.counters, chunk.num_output_tokens, text=bool(chunk.text))
                if request.stream or chunk.finish_reason:
                    tensors = [pb_utils.Tensor(name, array) for name, array in responses.arrays(chunk).items()]
                    job.send(pb_utils.InferenceResponse(tensors), chunk.finish_reason)

    def _prompt(self, request: Request) -> tuple[str, list[int]]:
        if request.messages is None:
            return request.text, self._tokenizer.encode_prompt(request.text)
        text = self._chat.render(request.messages)
        return text, self._tokenizer.encode_rendered(text)

    def _longest_draft(self, request: Request) -> int:
        """The longest draft that a round of this request can have: the size of its histogram."""
        if request.num_draft_tokens is not None:
            return request.num_draft_tokens
        deployment = self._deployment
        if deployment.policy != "fixed":
            return deployment.max_draft_length
        return max(deployment.num_draft_tokens, deployment.lookup_length or 0)

    def _generation(self, request: Request, prompt: list[int], limits: Limits, meter: RequestMeter) -> Generation:
        deployment = self._deployment
        context = self._context(request, prompt, limits)
        models = Models(
            TargetModel(self._calls, deployment.target_model, context, meter.exchange),
            self._tokenizer.decode,
            self._draft(request, context, meter.exchange),
            self._lookup(request),
            deployment.lookup_length if request.num_draft_tokens is None else None,
        )
        policy = deployment.draft_policy(request.num_draft_tokens)
        surroundings = Surroundings(lambda: self._calls.runtime.running, meter.step)
        return Generation(prompt, limits, models, policy, surroundings)

    def _limits(self, request: Request, prompt: list[int]) -> Limits:
        return Limits(
            max_tokens=self._budget(request, prompt),
            end_ids=request.end_ids,
            stop_ids=self._stop_ids(request),
            stop_words=request.stop_words,
            max_draft_length=self._deployment.max_draft_length,
            vocab_size=self._deployment.vocab_size,
            fence=request.min_tokens if len(request.end_ids) > 1 else 0,
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
            min_tokens_name=self._deployment.min_tokens_name,
            returns=("return_log_probs",) if request.log_probs else (),
            reseed=self._deployment.seed_name if self._deployment.seed_per_call and request.draws else "",
        )

    def _draft(self, request: Request, context: Context, exchange: Exchange) -> DraftModel | None:
        """The draft, which draws its tokens as the target does where that makes them agree more often.

        By logits it has to, with random numbers of its own in every round: what was dropped of the last draft may have
        decided how long the next one is. By tokens it does where both see the same random numbers, else it is greedy.
        Where no token is drawn, logits would decide nothing.
        """
        deployment = self._deployment
        if not deployment.draft_model or request.num_draft_tokens == 0:
            return None
        if request.logits and request.draws:
            exchange.opaque = deployment.fast_logits
            context = replace(context, returns=("return_generation_logits",), salt=1, reseed=deployment.seed_name)
        elif deployment.shared_noise:
            context = replace(context, returns=())
        else:
            greedy = {name: array for name, array in context.sampling.items() if name in _SHAPING}
            context = context.with_sampling(greedy)
        return DraftModel(self._calls, deployment.draft_model, context, exchange, deployment.draft_timeout)

    def _lookup(self, request: Request) -> NgramDraft | None:
        deployment = self._deployment
        wanted = deployment.lookup and request.num_draft_tokens != 0
        return NgramDraft(deployment.lookup_match) if wanted else None


def _fail(job: _Job, code: str, text: str, kind: str) -> None:
    # what a client sent is quoted in places: it may be long, or half a surrogate pair
    text = (
        (text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…")
        .encode("utf-8", "backslashreplace")
        .decode()
    )
    error = pb_utils.TritonError(text, getattr(pb_utils.TritonError, kind))
    if not job.send(pb_utils.InferenceResponse(output_tensors=[], error=error), code):
        pb_utils.Logger.log_warn(f"after an answer: {text}")
