"""The search itself: rungs of the race, then the winners again on prompts that the race never saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from trtspec.loadtest.plan import Block
from trtspec.loadtest.prompts import Prompt
from trtspec.loadtest.records import Record
from trtspec.tuning.bench import Bench
from trtspec.tuning.budget import Clock
from trtspec.tuning.options import BASELINE, TuneOptions
from trtspec.tuning.plan import CONFIRM, LevelPlan, order_of, split_prompts
from trtspec.tuning.race import RUNGS, comparisons, decide, rounds_of_rung
from trtspec.tuning.standings import LevelRecords, candidate_of
from trtspec.tuning.state import Level, State
from trtspec.tuning.status import LevelStatus, TuneListener, TuneStatus

__all__ = ["Search", "first_state"]

# rounds of the confirmation
_MOST_FINAL = 16


def first_state(options: TuneOptions) -> State:
    """Every candidate at every level is in the race."""
    plans = [LevelPlan(concurrency, (), options) for concurrency in options.load.concurrency]
    return State({plan.label: Level(list(options.candidates)) for plan in plans})


@dataclass
class Search:
    """Goes from rung to rung; `state` is written to `folder` after every block, with the size of the records' file."""

    options: TuneOptions
    prompts: Sequence[Prompt]
    state: State
    folder: Path
    file: Path
    listener: TuneListener | None = None
    records: list[Record] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        search, held_out = split_prompts(self.prompts, self.options.load.seed)
        levels = self.options.load.concurrency
        self.clock = Clock(self.options.budget, self.state.spent, dict(self.state.costs))
        self.plans = [LevelPlan(level, tuple(search), self.options) for level in levels]
        self.final_plans = [LevelPlan(level, tuple(held_out), self.options, CONFIRM) for level in levels]

    def keep(self, record: Record) -> None:
        """Take in a record."""
        self.records.append(record)
        if record.failed and record.excluded is None:
            self.failed.append(record.error or "an empty answer")

    async def run(self, bench: Bench) -> None:
        """Go on from the state to the end."""
        while self.state.phase == "search":
            self._end_rung(in_time=await self._rung(bench))
        while self.state.phase == "confirm":
            await self._confirm(bench)
            self.state.phase = "finished"
            self._checkpoint()

    # --- the race ---

    async def _rung(self, bench: Bench) -> bool:
        """Measure a rung's blocks; False when the time was up before its end."""
        blocks = list(self._rung_blocks())
        for plan, block in blocks:
            racing = self.state.levels[plan.label].racing
            if (plan.label, block.index) in self.state.done:
                continue
            if self.clock.search_left <= self.clock.cost(plan.label, (BASELINE, *racing)):
                return False
            await self._block(bench, plan, block, (racing, len(blocks)))
        return True

    def _rung_blocks(self) -> Iterator[tuple[LevelPlan, Block]]:
        """Those of all levels that are not settled, by turns, so that no level is left for later."""
        done = sum(rounds_of_rung(rung) for rung in range(self.state.rung))
        rounds = range(done, done + rounds_of_rung(self.state.rung))
        open_plans = [plan for plan in self.plans if not self.state.levels[plan.label].settled]
        return _by_turns(open_plans, rounds)

    def _end_rung(self, *, in_time: bool) -> None:
        for plan in self.plans:
            level = self.state.levels[plan.label]
            if not level.settled:
                self._judge(plan.label, level)
        settled = all(level.settled for level in self.state.levels.values())
        if not in_time or settled or self.state.rung + 1 >= RUNGS:
            self.state.phase = "confirm"
        else:
            self.state.rung += 1
        self.state.done = []
        self._checkpoint()

    def _judge(self, label: str, level: Level) -> None:
        standings = self.search_records(label).standings(level.racing)
        if len(standings) < 2:
            return
        tests = comparisons(len(self.options.candidates))
        decision = decide(standings, tolerance=self.options.tolerance, tests=tests)
        for candidate, reason in decision.dropped.items():
            level.dropped[candidate] = {"rung": self.state.rung, "reason": reason}
        level.racing = [candidate for candidate in level.racing if candidate not in decision.dropped]
        unknown = len(standings) < 1 + len(level.racing) + len(set(decision.dropped) - {BASELINE})
        level.leader, level.settled = decision.winner, decision.settled and not unknown
        level.speedup = next(one.speedup for one in standings if one.candidate == decision.winner)

    def search_records(self, label: str) -> LevelRecords:
        """What the race measured at a level."""
        return self._records(label, final=False)

    def final_records(self, label: str) -> LevelRecords:
        """What the confirmation measured at a level."""
        return self._records(label, final=True)

    def _records(self, label: str, *, final: bool) -> LevelRecords:
        found = LevelRecords(label)
        for record in self.records:
            if record.load == label and ((record.block or 0) >= CONFIRM) == final:
                found.add(candidate_of(record, self.options.policy), [record])
        return found

    # --- the winners again ---

    @property
    def finalists(self) -> dict[str, str]:
        """Level → the candidate that is measured again; none where the baseline won."""
        return {
            label: level.leader
            for label, level in self.state.levels.items()
            if level.leader is not None and level.leader != BASELINE
        }

    async def _confirm(self, bench: Bench) -> None:
        finalists = self.finalists
        plans = [plan for plan in self.final_plans if plan.label in finalists]
        if self.state.final_rounds is None:
            self.state.final_rounds = self._final_rounds(plans)
        blocks = list(_by_turns(plans, range(self.state.final_rounds)))
        for plan, block in blocks:
            if (plan.label, block.index) not in self.state.done:
                await self._block(bench, plan, block, ([finalists[plan.label]], len(blocks)))

    def _final_rounds(self, plans: Sequence[LevelPlan]) -> int:
        costs = [
            self.clock.cost(plan.label, (BASELINE, self.finalists[plan.label])) * len(plan.round(0)) for plan in plans
        ]
        return max(1, min(_MOST_FINAL, int(self.clock.left / sum(costs)))) if sum(costs) > 0 else 1

    # --- both ---

    async def _block(self, bench: Bench, plan: LevelPlan, block: Block, among: tuple[Sequence[str], int]) -> None:
        candidates, total = among
        at_end = self.options.load.servers == "one"
        for order, candidate in enumerate(order_of(candidates, block.index, self.options.load.seed, at_end=at_end)):
            self.clock.took(plan.label, candidate, await bench.run(plan, block, candidate, order))
            self._tell(plan.label, candidate, total)
        self.state.done.append((plan.label, block.index))
        self._checkpoint()

    def _checkpoint(self) -> None:
        self.state.spent, self.state.costs = self.clock.spent, dict(self.clock.costs)
        self.state.bytes = self.file.stat().st_size if self.file.exists() else 0
        self.state.write(self.folder)

    def _tell(self, label: str, candidate: str, total: int) -> None:
        if self.listener is None:
            return
        self.listener(
            TuneStatus(
                phase="search" if self.state.phase == "search" else "confirm",
                rung=self.state.rung,
                load=label,
                candidate=candidate,
                done=len(self.state.done),
                total=total,
                spent=self.clock.spent,
                budget=self.options.budget,
                levels=_statuses(self.state.levels),
            )
        )


def _statuses(levels: Mapping[str, Level]) -> dict[str, LevelStatus]:
    return {
        label: LevelStatus(tuple(level.racing), level.leader, level.speedup, level.settled)
        for label, level in levels.items()
    }


def _by_turns(plans: Sequence[LevelPlan], rounds: range) -> Iterator[tuple[LevelPlan, Block]]:
    """One block of each level, then the next of each, as long as any level has one."""
    columns = [[(plan, block) for number in rounds for block in plan.round(number)] for plan in plans]
    for row in zip_longest(*columns):
        yield from (item for item in row if item is not None)
