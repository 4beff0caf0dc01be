"""What a draft's README says about its shape, its training, and the other candidates."""

from __future__ import annotations

from trtspec.training.candidates import Candidate
from trtspec.training.card import CandidateLine
from trtspec.training.starts import Scratch, start_name
from trtspec.training.train import TrainingSettings

__all__ = ["candidate_line", "shape_text", "training_text"]


def shape_text(chosen: Candidate) -> str:
    """Sizes of a draft in words."""
    if isinstance(chosen.start, Scratch):
        shape = chosen.start.shape
        grouped = f"{shape.heads} heads ({shape.kv_heads} key/value)"
        return (
            f"hidden {shape.hidden}, {shape.layers} layers, {grouped}, intermediate {shape.intermediate}, "
            "tied embeddings"
        )
    config = chosen.network.config.get_text_config()
    return f"{type(chosen.network).__name__}, hidden {config.hidden_size}, {config.num_hidden_layers} layers"


def training_text(chosen: Candidate, settings: TrainingSettings, labels: int) -> str:
    """How a draft was trained, which of its states was kept, and why it ended; ``labels`` soft labels a token."""
    best = chosen.outcome.best
    loss = "" if best.loss is None else f", loss {best.loss:.3f}"
    return (
        f"{1 - settings.soft:.0%} cross entropy with the target's best token, {settings.soft:.0%} with its {labels}\n"
        "  best probabilities; AdamW. Kept is the state with the best greedy acceptance on other held-out prompts:\n"
        f"  after {best.step} steps ({best.epoch:.1f} passes){loss}, {100 * best.match:.1f} % of their tokens guessed. "
        f"It ended because {chosen.outcome.reason}."
    )


def candidate_line(candidate: Candidate, chosen: Candidate) -> CandidateLine:
    """The row of a candidate in the table of those that were tried."""
    length, speedup = candidate.prediction
    assert candidate.costs is not None
    return CandidateLine(
        name=start_name(candidate.start),
        parameters=candidate.parameters,
        mean_length=candidate.deciding.get(length),
        draft_length=length,
        draft_ms=1000 * candidate.costs.draft,
        speedup=speedup,
        chosen=candidate is chosen,
    )
