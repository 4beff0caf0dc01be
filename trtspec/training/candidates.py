"""One shape of a draft: trained, measured, and timed where several are compared."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from trtspec.files import discard, read_json, sweep_partials, write_json
from trtspec.progress import Reporter
from trtspec.training.card import Measurement
from trtspec.training.checkpoints import CheckpointStore
from trtspec.training.evaluate import acceptance, by_category, by_position, draft_matches, ending
from trtspec.training.export import Export, export_draft
from trtspec.training.generate import Answer
from trtspec.training.starts import Start, begin, start_name
from trtspec.training.step_cost import StepCosts, best_draft_length, measure_step_costs
from trtspec.training.train import Lesson, Outcome, Progress, TrainingSettings, train
from trtspec.units import three_digits

__all__ = ["HELD_OUT", "LENGTHS", "Candidate", "Workshop", "lengths_shown", "outcome_json"]

HELD_OUT = "held-out prompts"
LENGTHS = (1, 2, 3, 4, 5, 6, 8)  # that are measured and timed, beside the one that is asked for and its neighbours


@dataclass(frozen=True)
class Candidate:
    """A trained draft over the whole vocabulary, what was measured, and (where shapes are compared) what it costs.

    ``deciding`` are draft lengths with the tokens a round on the prompts that stopped the training: those choose
    between shapes, so that the prompts that are measured with decide nothing.
    """

    start: Start
    network: Any
    how: str
    outcome: Outcome
    measurements: Sequence[Measurement]
    deciding: Mapping[int, float] = field(default_factory=dict)
    proposed: Sequence[int] = ()
    costs: StepCosts | None = None

    @property
    def parameters(self) -> int:
        """Number of weights, tied ones once."""
        return sum(parameter.numel() for parameter in self.network.parameters())

    @property
    def prediction(self) -> tuple[int, float]:
        """The best draft length and the speed-up predicted for it; where no round drafted, a token a round."""
        assert self.costs is not None
        return best_draft_length(self.costs, self.deciding or {1: 1.0})


@dataclass(frozen=True)
class Workshop:
    """Where and on what candidates are made: target, its answers, and sets of answers to measure with.

    ``proposed`` are the ids that the torch runtime may propose, empty for all; ``end_ids`` those that end an answer.
    """

    target: Path
    folder: Path
    lesson: Lesson
    sets: Mapping[str, Sequence[Answer]]
    settings: TrainingSettings
    proposed: Sequence[int]
    end_ids: Sequence[int]
    device: torch.device

    def make(self, start: Start, reporter: Reporter, *, fresh: bool) -> Candidate:
        """Train (or go on with) a draft that starts so, and measure it."""
        if fresh:
            discard(self.folder)
        sweep_partials(self.folder)
        torch.manual_seed(self.settings.seed)
        beginning = begin(start, self.target, self.lesson.taught, self.lesson.vocabulary)
        network = beginning.network.to(self.device)
        store = CheckpointStore(self.folder)
        with reporter.activity(f"training {start_name(start)}") as tell:
            watcher = _Watcher(tell, reporter, self.settings.draft_length)
            outcome = train(network, self.lesson, self.settings, watcher, store)
        whole = beginning.whole(network).to(self.device)
        measured, deciding = tuple(self._measure(whole)), self._deciding(whole)
        return Candidate(start, whole, beginning.how, outcome, measured, deciding, self.proposed)

    def timed(self, candidate: Candidate, dtypes: tuple[str, str]) -> Candidate:
        """The candidate with its step costs: those measured before, else measured now."""
        path = self.folder / "costs.json"
        costs = _read_costs(path)
        if costs is None:
            draft = self.folder / "draft"
            export_draft(candidate.network, draft, Export(self.target, "", frequent=self.proposed))
            costs = measure_step_costs(self.target, draft, LENGTHS, dtypes, self.device)
            write_json(path, {"target": {str(rows): s for rows, s in costs.target.items()}, "draft": costs.draft})
            discard(draft)
        return replace(candidate, costs=costs)

    def _measure(self, network: Any) -> list[Measurement]:
        found, lengths = [], sorted({*LENGTHS, *lengths_shown(self.settings.draft_length)})
        for name, answers in self.sets.items():
            matches = draft_matches(network, answers)
            found += [self._measurement(name, answers, matches, length) for length in lengths]
            if self.proposed:
                matches = draft_matches(network, answers, proposed=self._ids)
                name_there = proposing(name, self.proposed)
                found += [self._measurement(name_there, answers, matches, length) for length in lengths]
        return found

    def _measurement(self, name: str, answers: Sequence[Answer], matches: Sequence[Any], length: int) -> Measurement:
        endings = [ending(answer, self.end_ids) for answer in answers]
        counts = by_category(answers, matches, length, self.end_ids)
        positions = by_position(matches, length, endings)
        return Measurement(name, length, len(answers), acceptance(matches, length, endings), counts, positions)

    def _deciding(self, network: Any) -> dict[int, float]:
        """Draft length → tokens a round on the prompts that stopped the training, as the torch runtime proposes."""
        matches = draft_matches(network, self.lesson.held_out, proposed=self._ids if self.proposed else None)
        endings = [ending(answer, self.end_ids) for answer in self.lesson.held_out]
        means = {length: acceptance(matches, length, endings).mean_length for length in LENGTHS}
        return {length: mean for length, mean in means.items() if mean is not None}

    @property
    def _ids(self) -> torch.Tensor:
        return torch.tensor(sorted(self.proposed), device=self.device)


def lengths_shown(draft_length: int) -> set[int]:
    """Draft lengths in the README and on the screen: the one asked for and its neighbours."""
    return {max(1, draft_length - 1), draft_length, draft_length + 1}


def proposing(name: str, ids: Sequence[int]) -> str:
    """What a set of prompts is called where the draft proposes only these ids; its own name for none."""
    return f"{name}, proposing {len(ids)} tokens" if ids else name


def _read_costs(path: Path) -> StepCosts | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        data = read_json(path)
        return StepCosts({int(rows): float(s) for rows, s in data["target"].items()}, float(data["draft"]))
    return None


class _Watcher:
    """Tells a reporter about a training."""

    def __init__(self, tell: Any, reporter: Reporter, draft_length: int) -> None:
        self._tell, self._reporter, self._length = tell, reporter, draft_length
        self._last: Progress | None = None

    def evaluated(self, now: Progress) -> None:
        """See `Watcher`."""
        self._last = now
        loss = "" if now.loss is None else f"loss {now.loss:.3f}, "
        self._reporter.note(f"  pass {now.epoch:.1f}: {loss}{self._acceptance(now)}")

    def stepped(self, done: float, loss: float) -> None:
        """See `Watcher`."""
        so_far = f", {self._acceptance(self._last)}" if self._last else ""
        self._tell(f"{done:.0%} done, loss {loss:.2f}{so_far}")

    def note(self, text: str) -> None:
        """See `Watcher`."""
        self._reporter.note(f"  {text}")

    def _acceptance(self, now: Progress) -> str:
        return f"held-out acceptance {three_digits(now.rate)} at draft length {self._length}"


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """How a training went, without times."""
    steps = [{name: value for name, value in asdict(one).items() if name != "seconds"} for one in outcome.progress]
    return {"steps": outcome.steps, "stopped": outcome.reason, "best_step": outcome.best.step, "evaluations": steps}
