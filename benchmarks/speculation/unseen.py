"""Prompts for a draft that `trtspec distill` made of built-in prompts: the same templates, none that it was taught.

    python benchmarks/speculation/unseen.py --taught-seed 0 1 2 --categories code,extraction > unseen.jsonl
    python benchmarks/speculation/run.py --prompts unseen.jsonl --draft DRAFT --count 0

What a service asks tomorrow: the tasks of today with other documents, names and numbers. The harder question, tasks
that the draft never saw, is asked with the file of held-out prompts that distill leaves beside the answers.
"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from trtspec.training.prompts import CATEGORIES, iterate_prompts


def main() -> None:
    options = parsed()
    taught = {
        one.text
        for seed in options.taught_seed
        for categories in {options.categories, CATEGORIES}  # a draft that was tuned may have begun with all of them
        for one in islice(iterate_prompts(seed, categories), options.taught)
    }
    rows: dict[str, list[str]] = {category: [] for category in options.categories}
    for prompt in iterate_prompts(options.seed, options.categories):
        texts = rows[prompt.category]
        if not prompt.held_out and prompt.text not in taught and len(texts) < options.count:
            texts.append(prompt.text)
        if all(len(texts) == options.count for texts in rows.values()):
            break
    else:
        sys.exit("the templates give no further prompts: ask for fewer (--count)")
    for category, texts in rows.items():
        for number, text in enumerate(texts):
            row = {"id": f"{category}-{number}", "category": category, "prompt": text, "max_tokens": options.max_tokens}
            print(json.dumps(row, ensure_ascii=False))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Form)
    parser.add_argument(
        "--taught-seed",
        type=int,
        nargs="+",
        required=True,
        help="--seed of each of its distillations, with those of what it was tuned from (demo: 0 1)",
    )
    parser.add_argument("--taught", type=int, default=20_000, help="prompts of each that it may have seen")
    parser.add_argument("--categories", type=_categories, default=CATEGORIES, help="those of the distillations")
    parser.add_argument("--seed", type=int, default=77, help="of these prompts")
    parser.add_argument("--count", type=int, default=20, help="prompts of each category")
    parser.add_argument("--max-tokens", type=int, default=144, help="longest answer")
    options = parser.parse_args()
    if options.count < 1:
        parser.error("--count must be 1 or more")
    return options


class _Form(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Text as it stands, and every default."""


def _categories(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in CATEGORIES]:
        raise argparse.ArgumentTypeError(f"no such category: {', '.join(unknown)}; there are {', '.join(CATEGORIES)}")
    return names


if __name__ == "__main__":
    main()
