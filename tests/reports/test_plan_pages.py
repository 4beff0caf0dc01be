"""A plan on a terminal of two widths, and as a page."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.planning.pairs import metadata_spec
from tests.reports.page import read_page
from tests.reports.sample import make_records, write_run
from trtspec.errors import UsageError
from trtspec.planning.plan import Plan, PlanOptions, make_plan
from trtspec.reports.measured import read_measured
from trtspec.reports.plan_charts import cost_chart, memory_chart, speed_chart
from trtspec.reports.plan_console import print_plan
from trtspec.reports.plan_detail import print_detail
from trtspec.reports.plan_html import render_plan_html, write_plan_html

PLANS = {
    "given": PlanOptions(acceptance_rate=0.6, price=2.5),
    "none": PlanOptions(),
    "wide": PlanOptions(acceptance_rate=0.6, concurrencies=tuple(1 << power for power in range(13))),
    "small": PlanOptions(gpu="L4", acceptance_rate=0.6),
    "long": PlanOptions(acceptance_rate=0.6, draft_lengths=(0, 4, 16, 64)),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plan]:
    folder = tmp_path_factory.mktemp("pair")
    spec = metadata_spec(folder, expectations={"requests_per_second": 5})
    run = write_run(folder / "run", make_records())
    measured = make_plan(spec, PlanOptions(measured=read_measured(run)))
    return {name: make_plan(spec, options) for name, options in PLANS.items()} | {"measured": measured}


def shown(plan: Plan, width: int, *, detail: bool = False) -> list[str]:
    stream = io.StringIO()
    # as the sink of a command has it
    console = Console(file=stream, width=width, highlight=False, soft_wrap=True)
    print_plan(console, plan)
    if detail:
        print_detail(console, plan)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", [*PLANS, "measured"])
def test_no_line_is_wider_than_the_terminal(plans: dict[str, Plan], name: str, width: int) -> None:
    for line in shown(plans[name], width, detail=True):
        assert len(line.rstrip()) <= width, line


@pytest.mark.parametrize("width", [80, 120])
def test_the_columns_of_the_speedup_table_stand_below_each_other(plans: dict[str, Plan], width: int) -> None:
    lines = shown(plans["given"], width)
    head = next(index for index, line in enumerate(lines) if line.startswith("concurrency") and "first" not in line)
    rows = lines[head : head + 8]
    ends = {tuple(index for index in range(1, len(row)) if row[index] == " " and row[index - 1] != " ") for row in rows}
    assert len(ends) == 1


def test_the_first_screen_has_verdict_memory_speed_chart_and_cost(plans: dict[str, Plan]) -> None:
    text = "\n".join(shown(plans["given"], 120))
    for part in ("fits on 4 × H100", "GPU 1,2,3", "target weights", "expected speed-up", "break-even", "GPUs for load",
                 "a month", "tokens/s a user"):  # fmt: skip
        assert part in text


def test_the_first_screen_says_what_to_configure(plans: dict[str, Plan]) -> None:
    memory = plans["given"].memory
    assert memory is not None
    draft, target = memory.kv_cache["draft"], memory.kv_cache["target"]
    text = "\n".join(shown(plans["given"], 120))
    assert f"draft {draft.fraction:.3f}, target {target.fraction:.3f} (draft loaded first)" in text
    assert f"in any order: {draft.fraction_any_order:.3f}, {target.fraction_any_order:.3f} with max_tokens" in text
    assert "target on GPU 0,1,2,3 (tp 4)  draft on GPU 0  launch mode orchestrator, world size 1" in text
    assert "prompts up to 8 191 tokens, 7 936 with an answer of 256" in text
    assert "chunked" not in text
    longest = memory.limits.rooms[1]
    assert f"{longest.at_once} sequences of 8 192 tokens (longest) at once, {longest.by_memory} by memory" in text


def test_ranks_prompts_in_one_pass_and_hidden_lengths_are_said(tmp_path: Path) -> None:
    spec = metadata_spec(
        tmp_path,
        speculation={"draft_length": 4, "acceptance": "logits"},
        serving={"fast_logits": True},
        build={"max_batch_size": 1, "max_seq_len": 8192, "max_num_tokens": 2048},
    )
    plan = make_plan(spec, PlanOptions(acceptance_rate=0.6, draft_lengths=(1, 4)))
    text = "\n".join(shown(plan, 140))
    assert "world size 6, participant_ids draft 1, target 2,3,4,5" in text
    assert "prompts up to 8 191 tokens, 7 936 with an answer of 256" in text
    assert "2 048 in one pass: the limit of a server without chunked context" in text
    assert "1 sequence of 1 280 tokens (expected) at once" in text
    assert plan.forecast is not None
    best = plan.forecast.best[0]
    assert best.draft_length not in (1, 4)
    assert f"best of those not shown: {best.draft_length} at 1 (×{best.speedup:.2f})" in text


def test_without_an_acceptance_the_table_shows_what_is_needed(plans: dict[str, Plan]) -> None:
    text = "\n".join(shown(plans["none"], 100))
    assert "acceptance rate that breaks even" in text
    assert "never assumed" in text
    assert "speed-up over concurrency" not in text


def test_a_plan_that_does_not_fit_shows_what_to_change_and_no_speed(plans: dict[str, Plan]) -> None:
    text = "\n".join(shown(plans["small"], 100))
    assert "makes it fit" in text
    assert "end of the GPU" in text
    assert "speed-up" not in text


def test_more_levels_than_fit_are_marked(plans: dict[str, Plan]) -> None:
    text = "\n".join(shown(plans["wide"], 80))
    assert "more than the 32 sequences that fit at once" in text
    assert "more columns: --concurrency" in text


def test_a_measured_run_stands_beside_its_prediction(plans: dict[str, Plan]) -> None:
    text = "\n".join(shown(plans["measured"], 100))
    assert "predicted / measured - 1" in text
    assert "ideal by acceptance alone" in text


def test_the_detail_has_every_term(plans: dict[str, Plan]) -> None:
    text = "\n".join(shown(plans["given"], 160, detail=True))
    parts = ["formula", "bandwidth_efficiency", "launch mode", "tp 4", "price_per_hour", "--price"]
    for part in (*parts, "target, 5 tokens", "keys and values a token"):
        assert part in text


@pytest.mark.parametrize("name", ["given", "small", "measured"])
def test_the_page_is_whole_and_needs_no_network(plans: dict[str, Plan], name: str) -> None:
    text = render_plan_html(plans[name])
    page = read_page(text)
    assert page.unbalanced == []
    assert not [e for e in page.elements if e.tag in ("link", "img", "iframe") or "src" in e.attributes]
    assert plans[name].verdict in next(e.text for e in page.elements if e.tag == "h1")
    figures = json.loads(next(e.text for e in page.elements if e.attributes.get("id") == "report-figures"))
    assert set(figures) <= {e.attributes.get("id") for e in page.elements if e.tag == "figure"}
    assert "memory" in figures


def test_the_charts_carry_the_plans_numbers(plans: dict[str, Plan]) -> None:
    plan = plans["given"]
    page = read_page(render_plan_html(plan))
    figures = json.loads(next(e.text for e in page.elements if e.attributes.get("id") == "report-figures"))
    assert plan.forecast is not None
    lines = {trace["name"]: trace["y"] for trace in figures["speedup"][""]["data"]}
    assert lines["4 drafted (spec)"] == [plan.forecast.cell(c, 4).speedup for c in plan.forecast.grid.concurrencies]
    assert [trace["name"] for trace in figures["cost"][""]["data"]] == ["baseline", "speculative"]


@pytest.mark.parametrize("name", [*PLANS, "measured"])
def test_every_figure_is_one_that_plotly_accepts(plans: dict[str, Plan], name: str) -> None:
    import plotly.graph_objects as go

    for chart in (speed_chart(plans[name]), memory_chart(plans[name]), cost_chart(plans[name])):
        for shown_figure in chart.variants.values():
            # the page puts the colours in
            go.Figure(json.loads(re.sub(r'"@[a-z-]+"', '"#123456"', json.dumps(shown_figure))))


def test_the_same_plan_gives_the_same_bytes(plans: dict[str, Plan]) -> None:
    assert render_plan_html(plans["given"]) == render_plan_html(plans["given"])


def test_names_from_a_spec_are_escaped(tmp_path: Path) -> None:
    spec = metadata_spec(tmp_path, loadtest={"prompts": "<script>alert(1)</script>.jsonl"})
    assert "<script>alert" not in render_plan_html(make_plan(spec))


def test_a_page_that_cannot_be_written_is_a_usage_error(plans: dict[str, Plan], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_plan_html(plans["none"], tmp_path / "file" / "plan.html")
