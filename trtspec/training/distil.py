"""The whole way from a target to an exported draft; stopped anywhere, it goes on from what is on disk."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from trtspec.building.identity import HashMemory, checkpoint_files
from trtspec.building.locks import locked
from trtspec.checkpoints import Checkpoint, read_checkpoint
from trtspec.errors import CheckpointError, UsageError
from trtspec.loadtest.prompts import Prompt, draw
from trtspec.progress import Reporter
from trtspec.provenance import text_key
from trtspec.training.answering import Answerer, load_answerer
from trtspec.training.candidates import HELD_OUT, Candidate, Workshop, lengths_shown, outcome_json
from trtspec.training.card import CandidateLine, CardFacts, card
from trtspec.training.collect import Collector, PromptFormat
from trtspec.training.data import Vocabulary
from trtspec.training.description import candidate_line, shape_text, training_text
from trtspec.training.export import Export, export_draft, half_precision, made_by_distill
from trtspec.training.generate import Answer, GenerationSettings, Job
from trtspec.training.held_out import write_held_out
from trtspec.training.shards import Shard, read_shard, write_shard
from trtspec.training.sources import Source
from trtspec.training.starts import FromDraft, Scratch, Start, start_name
from trtspec.training.tensor_file import FileDamaged
from trtspec.training.train import Lesson, TrainingSettings

__all__ = ["Distillation", "Distilled", "distil"]

_GENERATION_SHARE = 0.65
_SHORTEST_TRAINING = 1.0
_MOST_MEASURED = 60
_TELL_EVERY = 60.0  # seconds between two notes about answers, for logs that have no bar
# new layers learn fast; layers that know something already would forget it
_RATE_NEW, _RATE_KNOWING = 2e-3, 3e-4


@dataclass(frozen=True)
class Distillation:
    """What to distil, from where to where, and within which limits.

    ``work`` keeps the target's answers and the states of trainings, each under a key of what it depends on: the same
    plan goes on where it was stopped, another ``start`` trains on the same answers. ``tokens`` of answers are wanted;
    with ``seconds`` everything together takes about that long. ``further`` are prompts of the load test to measure
    with, called ``further_name``. ``proposed`` is how many of the most frequent tokens the torch runtime may propose
    (0: all); the others are seldom guessed, and their rows cost most of a small draft's step. ``rate`` is the peak
    learning rate (None: by the start).
    """

    target: Path
    out: Path
    work: Path
    source: Source
    starts: tuple[Start, ...]
    tokens: int = 600_000
    seconds: float | None = None
    repeats: int = 1
    longest_prompt: int = 512
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    rate: float | None = None
    further: Sequence[Prompt] = ()
    further_name: str = "load-test prompts"
    proposed: int = 8192
    device: str = "auto"
    dtypes: tuple[str, str] = ("auto", "auto")
    trust_remote_code: bool = False
    fresh: bool = False
    command: str = "trtspec distill"


@dataclass(frozen=True)
class Distilled:
    """What came of it: the chosen draft, all candidates, the README's facts, and seconds by stage.

    ``held_out_file`` has the held-out prompts that it was measured with, for a load test (None: none fits).
    """

    folder: Path
    chosen: Candidate
    candidates: Sequence[CandidateLine]
    facts: CardFacts
    record: dict[str, Any]
    seconds: dict[str, float]
    draft_length: int
    held_out_file: Path | None

    def to_json(self) -> dict[str, Any]:
        """The result as `distill --output json` prints it."""
        costs = self.chosen.costs.to_json() if self.chosen.costs else None
        lines = [{name: getattr(one, name) for name in CandidateLine.__dataclass_fields__} for one in self.candidates]
        data = {"schema": 1, "draft": str(self.folder), **self.record}
        return data | {
            "candidates": lines,
            "step_costs": costs,
            "seconds": self.seconds,
            "held_out_file": self.held_out_file and str(self.held_out_file),
        }


def distil(plan: Distillation, reporter: Reporter) -> Distilled:
    """Answer, train, measure and export.

    Errors name what is missing or contradicts the plan; whatever was finished before them stays on disk.
    """
    target = read_checkpoint(plan.target)
    _require_usable(plan, target)
    with locked(plan.work, lambda holder: reporter.note(f"waiting: {holder} works in {plan.work.name}")):
        return _Distiller(plan, target, reporter).run()


def _require_usable(plan: Distillation, target: Checkpoint) -> None:
    """What can be known before anything is loaded: tokenizer, lengths, and a folder that may be written."""
    if not any((plan.target / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json")):
        message = "has no tokenizer files of its own, which a draft needs"
        raise CheckpointError(
            message, where=str(plan.target), fix="save it as a Hugging Face folder with its tokenizer"
        )
    positions = target.config.usable_positions
    if positions is not None and plan.generation.max_new_tokens >= positions:
        message = f"answers of {plan.generation.max_new_tokens} tokens do not fit into the target's {positions}"
        raise UsageError(message, fix=f"--max-new-tokens {max(1, positions // 2)}")
    _require_apart(plan)
    if not (made_by_distill(plan.out) or _is_free(plan.out)):
        message = "is there and was not made by distill: it is not replaced"
        raise UsageError(message, where=str(plan.out), fix="--out DIR")


def _require_apart(plan: Distillation) -> None:
    """UsageError where writing the draft, which replaces its folder, would take away what a run needs again."""
    out = plan.out.resolve()
    needed = [("the target", plan.target), ("the work folder (--work)", plan.work)]
    needed += [("the model of --from", one.folder) for one in plan.starts if isinstance(one, FromDraft)]
    for name, folder in needed:
        if out == folder.resolve() or out in folder.resolve().parents:
            message = f"{name} lies there, and the draft would take its place"
            raise UsageError(message, where=str(plan.out), fix="--out DIR, another folder")


def _is_free(folder: Path) -> bool:
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError("PyTorch sees no CUDA device here", fix="--device cpu, or a CUDA build of PyTorch")
    return torch.device(name)


class _Distiller:
    """One distillation in progress; holds the lock of its work folder."""

    def __init__(self, plan: Distillation, target: Checkpoint, reporter: Reporter) -> None:
        self.plan, self.target, self.reporter = plan, target, reporter
        self.device = _device(plan.device)
        self.memory = HashMemory(plan.work / "hashes.json")
        self.settings = replace(plan.generation, end_ids=target.end_ids)
        self.format = PromptFormat(plan.target, target.end_ids, target.vocab_size)
        self.answers_key = self._answers_key()
        self._answerer: Answerer | None = None

    def run(self) -> Distilled:
        """See `distil`."""
        collector = self._collector()
        shards = list(self._collect(collector))
        taught, stop, measure = self._split(shards)
        held_out_file = self._write_held_out(collector.folder, shards, measure)
        seen = {answer.job.prompt for answers in (taught, stop) for answer in answers}
        sets = {HELD_OUT: measure, **self._further(seen)}
        self._answerer = None  # a large target makes room for the draft
        vocabulary = Vocabulary.of(taught, self.target.vocab_size or 0)
        lesson = Lesson(taught, stop, vocabulary)
        made = []
        for start in self.plan.starts:
            settings = self._training_settings(start, collector.seconds)
            folder = self.plan.work / "drafts" / self._training_key(start, settings, shards)
            proposed = self._proposed(start, vocabulary)
            ends = self.target.end_ids
            shop = Workshop(self.plan.target, folder, lesson, sets, settings, proposed, ends, self.device)
            candidate = shop.make(start, self.reporter, fresh=self.plan.fresh)
            made.append(shop.timed(candidate, self.plan.dtypes) if len(self.plan.starts) > 1 else candidate)
        chosen = max(made, key=lambda one: one.prediction[1]) if len(made) > 1 else made[0]
        lines = [candidate_line(one, chosen) for one in made if one.costs]
        facts = self._facts(chosen, lesson, lines, collector.seconds)
        return self._export(chosen, facts, collector.seconds, held_out_file)

    def _proposed(self, start: Start, vocabulary: Vocabulary) -> tuple[int, ...]:
        """The ids that a draft may propose in the torch runtime, empty for all.

        New layers can guess no token that never occurred; layers that know something may.
        """
        count = self.plan.proposed
        if not count or (count >= len(vocabulary) and not isinstance(start, Scratch)):
            return ()
        return tuple(vocabulary.ids[:count].tolist())

    # answers

    def _answers_key(self) -> str:
        content = self._content(self.plan.target)
        settings = self.settings
        parts = [settings.max_new_tokens, settings.top_k, settings.seed, self.plan.longest_prompt, self.plan.repeats]
        return text_key([content, self.plan.source.key, *map(str, parts)])

    def _content(self, folder: Path) -> str:
        hashes = self.memory.hashes(folder, checkpoint_files(folder), self.reporter)
        return text_key(part for item in sorted(hashes.items()) for part in item)

    def _collector(self) -> Collector:
        folder = self.plan.work / "answers" / self.answers_key
        folder.mkdir(parents=True, exist_ok=True)
        longest = self.plan.longest_prompt
        if self.target.config.usable_positions is not None:
            longest = min(longest, self.target.config.usable_positions - self.settings.max_new_tokens)
        return Collector(folder, self.plan.source, self.format, self.settings, longest, self.plan.repeats)

    def answerer(self) -> Answerer:
        """The target, loaded when it is first needed."""
        if self._answerer is None:
            self.reporter.note(f"loading {self.plan.target.name}")
            trusted = self.plan.trust_remote_code
            self._answerer = load_answerer(self.plan.target, self.device, trust_remote_code=trusted)
        return self._answerer

    def _collect(self, collector: Collector) -> Iterator[Shard]:
        """Shards until there are enough tokens, the prompts end, or the time for answering is up."""
        have, wanted, told = 0, self.plan.tokens, time.monotonic()
        with self.reporter.task("answers of the target", wanted, "tokens") as advance:
            for shard in collector.shards(self.answerer, self.reporter.note, lambda: self._time_is_up(collector)):
                have += shard.tokens
                advance(shard.tokens)
                if time.monotonic() - told >= _TELL_EVERY:
                    told = time.monotonic()
                    self.reporter.note(f"  {have} of {wanted} tokens of answers")
                yield shard
                if have >= wanted:
                    return
        what = "the time for answers" if self._time_is_up(collector) else "the prompts"
        self.reporter.note(f"{what} gave {have} tokens of answers; {wanted} were wanted")

    def _time_is_up(self, collector: Collector) -> bool:
        return self.plan.seconds is not None and collector.seconds >= _GENERATION_SHARE * self.plan.seconds

    def _split(self, shards: Sequence[Shard]) -> tuple[list[Answer], list[Answer], list[Answer]]:
        """Answers to train on, to stop by and to measure with; no prompt is in two of them."""
        answers = [answer for shard in shards for answer in shard.answers if len(answer.tokens)]
        held_out = {answer.job.prompt for answer in answers if answer.job.part != "train"}
        taught = [one for one in answers if one.job.part == "train" and one.job.prompt not in held_out]
        stop = [one for one in answers if one.job.part == "stop"]
        measure = [one for one in answers if one.job.part == "measure"]
        if not (taught and stop and measure):
            counts = f"{len(taught)} to train on, {len(stop)} to stop by, {len(measure)} to measure with"
            message = f"too few answers: {counts} (prompts over {self.plan.longest_prompt} tokens are left out, "
            message += "and those with tokens that the target has no row for)"
            raise UsageError(message, fix="give more prompts, or raise --tokens or --longest-prompt")
        return taught, stop, measure

    def _write_held_out(self, folder: Path, shards: Sequence[Shard], measure: Sequence[Answer]) -> Path | None:
        """What these shards measure with, beside them: prompts may be private, and a draft is passed on."""
        path = folder / f"held-out-{text_key(shard.digest for shard in shards)[:8]}.jsonl"
        places = {answer.job.index for answer in measure}  # such prompts are asked once, in the source's order
        written = write_held_out(path, self.plan.source, places, self.settings.max_new_tokens)
        if written < len(places):
            what = f"{len(places) - written} of {len(places)} held-out prompts"
            self.reporter.note(f"{what} are in no file of prompts: a load test would ask them otherwise")
        return path if written else None

    def _further(self, seen: AbstractSet[tuple[int, ...]]) -> dict[str, list[Answer]]:
        """The target's greedy answers to prompts of the load test, cut where each prompt's limit says.

        Prompts that the training has ``seen``, or that the target has no positions or rows for, are left out.
        """
        if not self.plan.further:
            return {}
        asked = self._asked_further(seen)
        if not asked:
            return {}
        prompts = [prompt for prompt, _ in asked]
        jobs = [Job(place, one.category, ids, part="measure") for place, (one, ids) in enumerate(asked)]
        key = text_key([self.answers_key, *(str(job.prompt) for job in jobs), *(str(p.max_tokens) for p in prompts)])
        path = self.plan.work / "answers" / f"further-{key}.safetensors"
        try:
            answers = read_shard(path).answers
        except (FileNotFoundError, FileDamaged):
            settings = replace(self.settings, max_new_tokens=max(prompt.max_tokens for prompt in prompts))
            with self.reporter.activity(f"answers to {len(jobs)} {self.plan.further_name}"):
                found = self.answerer().answer(jobs, settings)
            cut = [_cut(answer, prompt.max_tokens) for answer, prompt in zip(found, prompts, strict=True)]
            answers = write_shard(path, cut).answers
        return {self.plan.further_name: list(answers)}

    def _asked_further(self, seen: AbstractSet[tuple[int, ...]]) -> list[tuple[Prompt, tuple[int, ...]]]:
        """The prompts to measure with and their ids."""
        rng = random.Random(0)  # noqa: S311 - reproducible, not secret
        prompts = draw(self.plan.further, min(_MOST_MEASURED, len(self.plan.further)), rng)
        encoded = [(one, self.format.ids(one.messages or [{"role": "user", "content": one.text}])) for one in prompts]
        positions = self.target.config.usable_positions
        kept = [
            (one, ids)
            for one, ids in encoded
            if ids and self.format.knows(ids) and (positions is None or len(ids) + one.max_tokens <= positions)
        ]
        unseen = [(one, ids) for one, ids in kept if ids not in seen]
        if len(unseen) < len(encoded):
            why = f"{len(kept) - len(unseen)} the training has seen, {len(encoded) - len(kept)} are too long"
            self.reporter.note(f"{len(encoded) - len(unseen)} {self.plan.further_name} are not measured with: {why}")
        return unseen

    # training

    def _training_settings(self, start: Start, answering: float) -> TrainingSettings:
        rate = self.plan.rate or (_RATE_NEW if isinstance(start, Scratch) else _RATE_KNOWING)
        settings = replace(self.plan.training, rate=rate, embedding_rate=rate / 2)
        if self.plan.seconds is None:
            return settings
        # answers that an earlier run took longer for leave a training its share all the same
        left = (self.plan.seconds - min(answering, _GENERATION_SHARE * self.plan.seconds)) / len(self.plan.starts)
        return replace(settings, seconds=max(_SHORTEST_TRAINING, float(round(left))))

    def _training_key(self, start: Start, settings: TrainingSettings, shards: Sequence[Shard]) -> str:
        kept = replace(settings, checkpoint_seconds=0.0)
        # a time-limited training is one thing however much of its time was left when it began
        kept = replace(kept, seconds=self.plan.seconds)
        origin = self._content(start.folder) if isinstance(start, FromDraft) else ""
        digests = [shard.digest for shard in shards]
        limit = str(self.plan.tokens)
        return text_key([repr(start), origin, repr(kept), self.device.type, limit, *digests])

    # result

    def _facts(
        self,
        chosen: Candidate,
        lesson: Lesson,
        lines: Sequence[CandidateLine],
        answering: float,
    ) -> CardFacts:
        outcome, shown = chosen.outcome, lengths_shown(self.plan.training.draft_length)
        timed = self.plan.seconds is not None
        return CardFacts(
            target=self.plan.target.name,
            shape=shape_text(chosen),
            parameters=chosen.parameters,
            dtype=str(half_precision(chosen.network)).removeprefix("torch."),
            how=chosen.how,
            data=self.plan.source.title,
            answers=len(lesson.taught),
            tokens=sum(len(answer.tokens) for answer in lesson.taught),
            vocabulary=len(lesson.vocabulary),
            seed=self.plan.training.seed,
            training=training_text(chosen, self.plan.training, self.settings.top_k),
            measurements=[one for one in chosen.measurements if one.draft_length in shown],
            longest=max(len(answer.job.prompt) + len(answer.tokens) for answer in lesson.taught),
            command=self.plan.command,
            seconds=(answering, outcome.seconds) if timed else None,
            candidates=lines,
            proposed=len(chosen.proposed) or None,
            device=self.device.type,
            tuned=start_name(chosen.start) if isinstance(chosen.start, FromDraft) else None,
        )

    def _export(self, chosen: Candidate, facts: CardFacts, answering: float, held_out_file: Path | None) -> Distilled:
        record = {
            "target": self.plan.target.name,
            "start": start_name(chosen.start),
            "parameters": facts.parameters,
            "seed": facts.seed,
            "reproducible": facts.seconds is None and not facts.candidates and facts.device == "cpu",
            "data": {"prompts": facts.data, "answers": facts.answers, "tokens": facts.tokens},
            "training": outcome_json(chosen.outcome),
            "acceptance": [one.to_json() for one in chosen.measurements],
        }
        export = Export(self.plan.target, card(facts), record, chosen.proposed, self.target.end_ids)
        export_draft(chosen.network, self.plan.out, export)
        seconds = {"answers": answering, "training": chosen.outcome.seconds}
        length = self.plan.training.draft_length
        return Distilled(self.plan.out, chosen, facts.candidates, facts, record, seconds, length, held_out_file)


def _cut(answer: Answer, limit: int) -> Answer:
    """The answer's first ``limit`` tokens."""
    return Answer(answer.job, answer.tokens[:limit], answer.top_ids[:limit], answer.top_logprobs[:limit])
