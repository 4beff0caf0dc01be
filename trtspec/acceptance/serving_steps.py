"""Steps that serve the engines and measure them: repository, server, answers, verification, load test, report."""

from __future__ import annotations

import contextlib
import http.client
import signal
import subprocess
import time
from collections.abc import Iterator

from trtspec.acceptance.context import Context, Skip, StepFailure, last_words
from trtspec.spec import load_spec

__all__ = ["ask", "loadtest", "report", "repository", "serve", "verify"]

_QUESTION = "Explain in three sentences why the sky is blue."
_POLL = 2.0
_STOP = 120.0


def repository(context: Context) -> None:
    """The Triton model repository of both arms, and that it can be generated again without a change."""
    done = context.run("repo", (*context.trtspec, "repo", str(context.spec), "--output", "json"))
    if done.exit_code != 0:
        words = last_words(done)
        if "not in this version" in words:
            raise Skip(words)
        raise StepFailure(f"exit code {done.exit_code}: {words}")
    context.save("repo.json", done.document())
    again = context.must("repo-again", "repo", str(context.spec), "--output", "json").document()
    if again["changed"]:
        raise StepFailure(f"generated again, these files changed: {', '.join(again['changed'][:5])}")


@contextlib.contextmanager
def _server(context: Context, arm: str) -> Iterator[None]:
    """A running server of an arm for the block; StepFailure when it does not become ready."""
    log = context.logs / f"serve-{arm}.log"
    argv = (*context.trtspec, "serve", str(context.spec), "--arm", arm)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            argv, cwd=context.options.work, env=context.environment(), stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        _wait_ready(context, process)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_ready(context: Context, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + context.options.ready_timeout
    while process.poll() is None and time.monotonic() < end:
        if _get(context, "http_port", "/v2/health/ready") is not None:
            return
        time.sleep(_POLL)
    state = "did not become ready" if process.poll() is None else f"ended with {process.returncode}"
    raise StepFailure(f"the server {state}, see serve-*.log")


def _get(context: Context, port: str, path: str) -> bytes | None:
    """The body of an answer with status 200 from a port that the spec names; None for anything else."""
    serving = load_spec(context.spec).spec.serving
    connection = http.client.HTTPConnection("127.0.0.1", getattr(serving, port), timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.read() if answer.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


def serve(context: Context) -> None:
    """Start the speculative arm, ask it one question, keep its metrics, stop it."""
    with _server(context, "speculative"):
        answer = context.must("ask-running", "ask", str(context.spec), _QUESTION, "--output", "json").document()
        context.save("answers/speculative.json", answer)
        metrics = _get(context, "metrics_port", "/metrics")
        if metrics is not None:
            (context.options.results / "metrics.txt").write_bytes(metrics)
    if _get(context, "http_port", "/v2/health/live") is not None:
        raise StepFailure("the server still answers after it was stopped")


def ask(context: Context) -> None:
    """Ask the baseline the same question."""
    done = context.must("ask-baseline", "ask", str(context.spec), _QUESTION, "--arm", "baseline", "--output", "json")
    context.save("answers/baseline.json", done.document())


def verify(context: Context) -> None:
    """Greedy answers with speculation must equal those without."""
    context.save("verify.json", context.must("verify", "verify", str(context.spec), "--output", "json").document())


def loadtest(context: Context) -> None:
    """The paired, interleaved load test."""
    options = context.options
    arguments = ("--requests", str(options.requests), "--concurrency", options.concurrency, "--output", "json")
    done = context.must("loadtest", "loadtest", str(context.spec), *arguments)
    data = done.document()
    context.save("summary-of-loadtest.json", data)
    context.notes["verdict"] = (data.get("comparison") or {}).get("verdict")


def report(context: Context) -> None:
    """The newest run once more, from its raw requests."""
    context.must("report", "report", "--spec", str(context.spec), "--output", "json")
