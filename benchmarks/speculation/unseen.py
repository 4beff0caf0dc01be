"""Prompts for a draft that `trtspec distill` made of built-in prompts: the same templates, none that it was taught.

    python benchmarks/speculation/unseen.py --taught-seed 2 --categories code,extraction > unseen.jsonl
    python benchmarks/speculation/run.py --prompts unseen.jsonl --draft DRAFT --count 0

What a service asks tomorrow: the tasks of today with other documents, names and numbers. The harder question, tasks
that the draft never saw, is asked with the `held-out.jsonl` that distill leaves beside the answers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from trtspec.training.prompts import CATEGORIES, iterate_prompts


def main() -> None:
    options = parsed()
    categories = options.categories.split(",")
    taught = {one.text for one in islice(iterate_prompts(options.taught_seed, categories), options.taught)}
    rows: dict[str, list[str]] = defaultdict(list)
    for prompt in iterate_prompts(options.seed, categories):
        if prompt.held_out or prompt.text in taught or len(rows[prompt.category]) == options.count:
            continue
        rows[prompt.category].append(prompt.text)
        if all(len(rows[category]) == options.count for category in categories):
            break
    for category, texts in rows.items():
        for number, text in enumerate(texts):
            row = {"id": f"{category}-{number}", "category": category, "prompt": text, "max_tokens": options.max_tokens}
            print(json.dumps(row, ensure_ascii=False))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--taught-seed", type=int, required=True, help="--seed of the distillation")
    parser.add_argument("--taught", type=int, default=20_000, help="prompts that it may have seen")
    parser.add_argument("--categories", default=",".join(CATEGORIES), help="those of the distillation")
    parser.add_argument("--seed", type=int, default=77, help="of these prompts")
    parser.add_argument("--count", type=int, default=40, help="of each category")
    parser.add_argument("--max-tokens", type=int, default=144)
    return parser.parse_args()


if __name__ == "__main__":
    main()
