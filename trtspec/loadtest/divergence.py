"""Why two greedy arms wrote different texts: a near-tie between two tokens, or a fault in the logic.

Verifying several tokens in one pass uses other kernels than computing them one by one, so logits differ in their last
digits and a near-tie may fall the other way. That is no fault; a clear choice that differs is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from trtspec.errors import RequestFailed
from trtspec.loadtest.equality import first_divergence
from trtspec.loadtest.jobs import Job
from trtspec.loadtest.pairing import Pair
from trtspec.loadtest.sender import ArmClient, SendOptions
from trtspec.spec.names import BASELINE_ARM, SPECULATIVE, Arm
from trtspec.wire import Connection, next_token_logits

__all__ = ["LIMIT", "LOGIC_FAULT", "NEAR_TIE", "NOT_EXAMINED", "Diverged", "Examiner", "arithmetic", "examine"]

# at most so many pairs of a load test are asked again
LIMIT = 20
LOGIC_FAULT = "logic fault?"
NOT_EXAMINED = "not examined"
# a choice between logits closer than this may fall either way, by computation type: about what another order of
# summation changes in a logit of size 20
NEAR_TIE = {"float32": 0.01, "float16": 0.1, "bfloat16": 0.5}
_UNKNOWN_TYPE = 0.1
_BEYOND = 16


@dataclass(frozen=True)
class Examiner:
    """Both arms' gRPC connections, what makes requests, and the engines' type and runtime (None: unknown)."""

    connections: Mapping[Arm, Connection]
    options: SendOptions
    dtype: str | None = None
    runtime: str | None = None

    def threshold(self, logits: Any) -> dict[str, Any]:
        """`arithmetic`, and `threshold`: the gap of two logits up to which a choice counts as a near-tie."""
        found = arithmetic(logits, self.dtype, self.runtime)
        return {"arithmetic": found, "threshold": NEAR_TIE.get(found or "", _UNKNOWN_TYPE)}


def arithmetic(logits: Any, stored: str | None, runtime: str | None) -> str | None:
    """The type that float32 `logits` were computed in; None when that cannot be told.

    An engine's own type, with two exceptions. The torch runtime computes in float32 on a CPU whatever is stored, which
    shows in logits that the stored type cannot hold. Of a server that nothing is known of, logits that are all exact
    in a narrower type were computed in it.
    """
    if stored is None:
        return next((name for name in ("bfloat16", "float16") if _exact(logits, name)), None)
    if runtime == "torch" and stored != "float32" and not _exact(logits, stored):
        return "float32"
    return stored


def _exact(logits: Any, dtype: str) -> bool:
    """Whether every finite logit is a number of that type."""
    import numpy as np

    finite = np.asarray(logits, dtype=np.float32)
    finite = finite[np.isfinite(finite)]
    if dtype == "bfloat16":  # the upper half of a float32
        return not (finite.view(np.uint32) & 0xFFFF).any()
    with np.errstate(over="ignore"):
        return bool((finite.astype(np.float16).astype(np.float32) == finite).all())


@dataclass(frozen=True)
class Diverged:
    """A pair whose texts differ, and the job that it came from."""

    pair: Pair
    job: Job


@dataclass
class _Tokens:
    ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    prompt: tuple[int, ...] = ()

    def count_before(self, character: int) -> int:
        """How many tokens lie wholly in the first `character` characters."""
        length = 0
        for index, text in enumerate(self.texts):
            length += len(text)
            if length > character:
                return index
        return len(self.texts)


async def examine(
    examiner: Examiner, diverged: Sequence[Diverged], *, limit: int | None = LIMIT
) -> list[dict[str, Any]]:
    """What is known about the first divergence of each pair that diverged, at most `limit` of them (None: all).

    Each has `verdict`: "near-tie", "logic fault?", "not reproduced" (asked again, the arms agree, and the place is no
    near-tie) or "not examined" with a `reason`.
    """
    results = []
    for one in diverged[:limit]:
        pair = one.pair
        place = first_divergence(pair)
        found = await _examined(examiner, one, place)
        results.append({"pair": pair.key, "concurrency": pair.concurrency, "load": pair.load, **found})
    return results


async def _examined(examiner: Examiner, one: Diverged, place: Mapping[str, Any]) -> dict[str, Any]:
    if one.job.turn:
        return _unknown("a later turn of a conversation")
    limit = one.job.max_tokens
    if place["token_index"] is not None:
        limit = min(limit, place["token_index"] + _BEYOND)
    job = replace(one.job, max_tokens=limit)
    try:
        baseline, speculative = [await _tokens(examiner, arm, job) for arm in (BASELINE_ARM, SPECULATIVE)]
        return await _at_first_difference(examiner, baseline, speculative, place["character"])
    except RequestFailed as error:
        return _unknown(error.message)


def _unknown(reason: str) -> dict[str, Any]:
    return {"verdict": NOT_EXAMINED, "reason": reason}


async def _tokens(examiner: Examiner, arm: Arm, job: Job) -> _Tokens:
    tokens, connection = _Tokens(), examiner.connections[arm]
    request = replace(ArmClient(arm, connection, examiner.options, lambda _: None).request(job), token_details=True)
    async with aclosing(connection.stream(request, timeout=examiner.options.timeout)) as chunks:
        async for chunk in chunks:
            if chunk.details is not None:
                tokens.ids += chunk.details.ids
                tokens.texts += chunk.details.texts
                tokens.prompt = chunk.details.prompt_ids or tokens.prompt
    if not tokens.ids or not tokens.prompt:
        raise RequestFailed("the server gives no token details", code="no_details")
    return tokens


async def _at_first_difference(
    examiner: Examiner, baseline: _Tokens, speculative: _Tokens, character: int
) -> dict[str, Any]:
    shorter = min(len(baseline.ids), len(speculative.ids))
    differing = (at for at in range(shorter) if baseline.ids[at] != speculative.ids[at])
    at = next(differing, None)
    if at is not None:
        chosen = baseline.ids[at], speculative.ids[at]
        logits = await _logits(examiner, [*baseline.prompt, *baseline.ids[:at]])
        gap = float(logits.max() - min(logits[chosen[0]], logits[chosen[1]]))
        rule = examiner.threshold(logits)
        verdict = "near-tie" if gap <= rule["threshold"] else LOGIC_FAULT
        tokens = {"baseline_token": chosen[0], "speculative_token": chosen[1]}
        return {"token_index": at, **tokens, **_best(logits), "logit_gap": gap, **rule, "verdict": verdict}
    # the arms agree this time (other requests shared the passes before): look at the place where they parted
    at = baseline.count_before(character)
    logits = await _logits(examiner, [*baseline.prompt, *baseline.ids[:at]])
    best = _best(logits)
    gap = best["two_best"][0]["logit"] - best["two_best"][1]["logit"]
    rule = examiner.threshold(logits)
    verdict = "near-tie" if gap <= rule["threshold"] else "not reproduced"
    return {"token_index": at, **best, "logit_gap": gap, **rule, "verdict": verdict}


async def _logits(examiner: Examiner, ids: Sequence[int]) -> Any:
    return await next_token_logits(examiner.connections[BASELINE_ARM], ids, timeout=examiner.options.timeout)


def _best(logits: Any) -> dict[str, Any]:
    import numpy as np

    order = np.argsort(logits)[::-1][:2]
    return {"two_best": [{"token": int(token), "logit": float(logits[token])} for token in order]}
