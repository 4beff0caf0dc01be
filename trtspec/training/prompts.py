"""Chat prompts for training a draft: templates filled from long lists, the same for the same seed.

They resemble what a general assistant is asked in six categories.  They are made up here and none
of them is a prompt of the load test: a draft must be measured on prompts it never saw.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import resources

__all__ = ["CATEGORIES", "Prompt", "make_prompts"]


@dataclass(frozen=True)
class Prompt:
    """One user message and its category."""

    category: str
    text: str


_CODE = (
    "Write a {language} function that {task}.",
    "Write a function in {language} that {task}. Add a short comment.",
    "Write a {language} program that {task}.",
    "How can I write {language} code that {task}?",
    "Implement a function that {task} in {language} and show an example call.",
    "Write a {language} function that {task}. Only show the code.",
    "Give me {language} code which {task}, with type hints or comments.",
    "Write a unit test for a {language} function that {task}.",
    "Write a docstring for a function that {task}.",
    "What is {concept} in programming? Give a short example.",
    "Explain {concept} in {language} with an example.",
    "What does this code do?\n\n{snippet}",
    "Find the bug in this code and fix it:\n\n{snippet}",
    "Explain the following code line by line:\n\n{snippet}",
    "Rewrite this code so that it is easier to read:\n\n{snippet}",
    "Add comments to this code:\n\n{snippet}",
    'I get the error "{error}" in my program. What does it mean and how do I fix it?',
    "Write a SQL query that lists the {n} customers from {city} with the highest orders.",
    "Write a regular expression that matches a date like {date} and explain it.",
    "Write a {language} class for a {animal} with a name, an age and a method that prints both.",
    "Create a {language} class called Account with methods to deposit and withdraw money.",
    "Write a shell command that finds all files larger than {n} MB.",
)

_QUESTIONS = (
    "What is {fact}?",
    "What is {subject}?",
    "Explain {subject} in simple terms.",
    "Explain {subject} to {audience}.",
    "Why {why}?",
    "How {how}?",
    "Explain in two sentences: how {how}?",
    "What is the difference between {pair}?",
    "What are the main causes of {subject}?",
    "Why is {subject} important?",
    "Tell me three facts about {subject}.",
    "What are the advantages and disadvantages of {subject}?",
    "Who discovered or developed {subject}?",
    "When did people first learn about {subject}?",
    "What is {country} known for?",
    "Where is {city} and what can I see there?",
    "What is {n} plus {n}?",
    "If a train travels {n} kilometers in {hours} hours, what is its average speed?",
    "{name} has {n} apples and gives {hours} to {name}. How many are left?",
    "What does a {job} do?",
    "How long does a {animal} live and what does it eat?",
    "Is it true that a {animal} can swim? Explain briefly.",
    "Give a short definition of {subject}.",
    "What happened in {country} in {year}?",
    "List the main steps of {subject}.",
    "What would happen without {subject}?",
)

_SUMMARIES = (
    "Summarize the following text in one sentence:\n\n{passage}",
    "Summarize this article in two sentences.\n\n{passage}",
    "Give me a short summary of this text:\n\n{passage}",
    "What is the main point of this text?\n\n{passage}",
    "{passage}\n\nSummarize the text above.",
    "{passage}\n\nTL;DR:",
    "Write a headline for this article:\n\n{passage}",
    "List the three most important points of the following text:\n\n{passage}",
    "Summarize the text as bullet points:\n\n{passage}",
    "Rewrite this text in simpler words:\n\n{passage}",
    "Explain this text to {audience}:\n\n{passage}",
    "Shorten this text to about 30 words: {passage}",
    "Please summarise the passage below for {audience}.\n\n{passage}",
    "Condense this into a brief note:\n\n{passage}",
)

_CHATS = (
    "Hi! How are you today?",
    "Hello, my name is {name}. Nice to meet you!",
    "{worry}. What should I do?",
    "Hi, {worry}. Do you have any advice?",
    "{worry} and I don't know how to handle it. Can you help me?",
    "Give me five tips for {activity}.",
    "Give me some advice about {activity}.",
    "I want to start {activity}. How do I begin?",
    "What are the benefits of {activity}?",
    "What do you think about {activity}?",
    "I am a {job} and I love {activity}. What should I try next?",
    "Can you recommend a book about {subject}?",
    "Plan a weekend in {city} for me.",
    "I am visiting {country} for {hours} days. What should I do there?",
    "What should I pack for a trip to {city}?",
    "How do I make {food}?",
    "What goes well with {food}?",
    "Suggest a gift for a {job} who likes {activity}.",
    "Write an email to {name} asking to move our meeting to {time}.",
    "Write a polite email to my boss asking for a day off on {date}.",
    "Write a short message to thank {name} for the {object}.",
    "Help me write an invitation to {holiday}.",
    "Write a complaint to {company} about {product} that arrived broken.",
    "My friend {name} just became a {job}. What should I say?",
    "I had a great day in {city} today!",
    "Can you help me decide between {activity} and {activity}?",
    "How do I become a {job}?",
    "What questions should I ask in an interview for a job as a {job}?",
    "Tell me something interesting about {country}.",
    "Let's talk about {subject}. What do you find most interesting about it?",
    "Make a plan for {activity} over the next four weeks.",
    "I feel {mood} today. Any ideas for what to do?",
)

_EXTRACTIONS = (
    "Extract all names from this text:\n\n{record}",
    "Extract the names and dates from the following text:\n\n{record}",
    "List all places mentioned in this text:\n\n{record}",
    "Extract the data from this text as JSON:\n\n{record}",
    "Return a JSON object with the most important fields of this text: {record}",
    "What date is mentioned in this text?\n\n{record}",
    "Which numbers occur in the following text? List them.\n\n{record}",
    "Who is mentioned in this text, and what do we learn about them?\n\n{record}",
    "Make a table of the information in this text:\n\n{record}",
    "Extract the key facts as a bullet list:\n\n{record}",
    "{record}\n\nExtract all people, places and organizations.",
    "Read the text and answer: who, when and where?\n\n{record}",
    "Find all proper names in the text below and list one per line.\n\n{record}",
    "Extract every person and city from this article:\n\n{passage}",
    "Is the tone of this text positive or negative? Quote the words that show it.\n\n{record}",
    "Which keywords describe this text?\n\n{passage}",
    "List every year, percentage and number in the text:\n\n{passage}",
    "Fix the grammar and repeat the text:\n\n{record}",
    "Translate the key facts into a list of name: value pairs.\n\n{record}\n{record}",
    "Convert the following records to CSV:\n\n{record}\n{record}",
)

_CREATIVE = (
    "Write a short story about a {animal} and a {object}.",
    "Write a {mood} story about a {job} who finds a {object}.",
    "Write a short poem about {quality}.",
    "Write a {mood} poem about a {animal}.",
    "Write a haiku about {quality}.",
    "Write a haiku about a {object}.",
    "Write a limerick about a {job} from {city}.",
    "Continue this story: {name} opened the door and saw a {object}.",
    "Continue the story: Once upon a time, a {animal} lived in {city}.",
    "Write the first paragraph of a novel set in {city} in {year}.",
    "Write a dialogue between a {animal} and a {animal}.",
    "Write a conversation between {name} and a {job} about {quality}.",
    "Write a slogan for {product}.",
    "Write an advertisement for {product}.",
    "Write a product description for {product}.",
    "Invent a name for a company that sells {product} and explain it.",
    "Write a song about {quality} and {quality}.",
    "Describe a {object} in a {mood} way.",
    "Describe {city} at night in a few sentences.",
    "Write a letter from a {animal} to its owner.",
    "Write a speech for {holiday}.",
    "Write a fairy tale about a {animal} who wants to be a {job}.",
    "Write a bedtime story about a {animal} named {name}.",
    "Imagine a world without {subject}. Describe one day.",
    "Write a diary entry of a {job} in {city} in {year}.",
    "Give me five titles for a {mood} book about a {object}.",
    "Write a joke about a {job}.",
    "Write a riddle about a {object}.",
    "Write a {mood} scene with {name}, {name} and a {object}.",
    "Write a short blog post about {activity}.",
)

_TEMPLATES: dict[str, tuple[str, ...]] = {
    "code": _CODE,
    "question_answering": _QUESTIONS,
    "summarising": _SUMMARIES,
    "chat": _CHATS,
    "extraction": _EXTRACTIONS,
    "creative": _CREATIVE,
}

CATEGORIES = tuple(_TEMPLATES)


@dataclass(frozen=True)
class _Slots:
    """Entries for the slots, sentences of passages in their order, and records; all may hold slots."""

    words: dict[str, list[str]]
    passages: list[list[str]]
    records: list[str]


@functools.cache
def _slots() -> _Slots:
    file = resources.files("trtspec.training") / "slots.json"
    return _Slots(**json.loads(file.read_text(encoding="utf-8")))


_MONTHS = "January February March April May June July August September October November December"
_SLOT = re.compile(r"\{([a-z_]+)\}")


def make_prompts(count: int, seed: int = 0) -> list[Prompt]:
    """``count`` different prompts, the categories in turn; a longer list begins with the shorter."""
    rng = random.Random(seed)  # noqa: S311 - reproducible, not secret
    seen: set[str] = set()
    prompts: list[Prompt] = []
    while len(prompts) < count:
        category = CATEGORIES[len(prompts) % len(CATEGORIES)]
        text = next(text for text in _candidates(category, rng) if text not in seen)
        seen.add(text)
        prompts.append(Prompt(category, text))
    return prompts


def _candidates(category: str, rng: random.Random) -> Iterator[str]:
    while True:
        yield _fill(rng.choice(_TEMPLATES[category]), rng)


def _fill(template: str, rng: random.Random) -> str:
    """The template with its slots filled; entries may hold slots themselves."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in _SPECIAL:
            return _SPECIAL[name](rng)
        words = _slots().words
        return _fill(rng.choice(words[name]), rng) if name in words else match.group(0)

    return _SLOT.sub(value, template).replace("\\n", "\n")


def _passage(rng: random.Random) -> str:
    sentences = rng.choice(_slots().passages)
    kept = sorted(rng.sample(range(len(sentences)), rng.randint(3, len(sentences))))
    return _fill(" ".join(sentences[i] for i in kept), rng)


def _record(rng: random.Random) -> str:
    return _fill(rng.choice(_slots().records), rng)


def _pair(rng: random.Random) -> str:
    words = _slots().words
    return " and ".join(rng.choice(list(zip(words["thing_a"], words["thing_b"], strict=True))))


def _date(rng: random.Random) -> str:
    month, day, year = rng.choice(_MONTHS.split()), rng.randint(1, 28), rng.randint(2015, 2026)
    forms = (f"{month} {day}", f"{month} {day}, {year}", f"{day} {month} {year}", f"{year}-0{1 + day % 9}-{day:02d}")
    return rng.choice(forms)


def _time(rng: random.Random) -> str:
    return f"{rng.randint(7, 19)}:{rng.choice(('00', '15', '30', '45'))}"


_SPECIAL: dict[str, Callable[[random.Random], str]] = {
    "passage": _passage,
    "record": _record,
    "pair": _pair,
    "date": _date,
    "time": _time,
    "n": lambda rng: str(rng.randint(11, 99)),
    "hours": lambda rng: str(rng.randint(2, 9)),
    "pct": lambda rng: str(rng.randint(2, 95)),
    "year": lambda rng: str(rng.randint(1890, 2024)),
    "price": lambda rng: f"{rng.randint(2, 900)}.{rng.choice(('00', '50', '99'))}",
}
