"""Made-up documents that prompts ask to summarise, copy, edit, translate or extract from."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from trtspec.training.filling import Filler
from trtspec.training.programs import PROGRAMS

__all__ = ["DOCUMENTS"]


def _article(f: Filler) -> str:
    """Two or three paragraphs, sometimes under a headline."""
    paragraphs = [" ".join(f.passage()) for _ in range(f.rng.randint(2, 3))]
    head = [f.text(f.rng.choice(("News from {city}", "{company} in the news", "Report of {date}", "{subject}")))]
    return "\n\n".join((head if f.rng.random() < 0.4 else []) + paragraphs)


def _email(f: Filler) -> str:
    opening = f.rng.choice(("Hi {name},", "Dear {name},", "Hello everyone,", "Good morning {name},"))
    lines = [
        "thank you for your message of {date}.",
        "our meeting about {product} is moved to {date} at {time}.",
        "could you please send me the numbers for {city} by {date}?",
        "we ordered {n} pieces of {product} from {company}, and {hours} of them were damaged.",
        "the new {job} starts on {date} and will share an office with {name}.",
        "I am on holiday from {date} to {date}; {name} {surname} will answer for me.",
        "please remember to bring your {object} and the signed contract.",
        "the invoice over {price} dollars has not been paid yet.",
        "parking at the office in {city} is not possible this week.",
        "let me know until {time} tomorrow whether you can come.",
    ]
    chosen = f.rng.sample(lines, f.rng.randint(2, 5))
    body = " ".join(f.text(line[0].upper() + line[1:]) for line in chosen)
    closing = f.rng.choice(("Best regards,", "Kind regards,", "Thanks,", "See you soon,", "Cheers,"))
    head = f.text("Subject: {product}\n\n") if f.rng.random() < 0.3 else ""
    return f"{head}{f.text(opening)}\n{body}\n{closing}\n{f.text('{name} {surname}')}"


def _minutes(f: Filler) -> str:
    people = f.several("name", 3, 5)
    items = [
        "{person} reported that the order for {product} is late.",
        "It was decided to postpone the launch to {date}.",
        "{person} will ask {company} for a new offer until {date}.",
        "The budget for {city} is raised to {n} thousand dollars.",
        "{person} presented the results of the survey: {pct} percent were satisfied.",
        "No agreement was reached about the office plants.",
        "{person} and {other} prepare the workshop in {city}.",
        "The next meeting is on {date} at {time}.",
    ]
    lines = []
    for number, item in enumerate(f.rng.sample(items, f.rng.randint(3, 6)), start=1):
        named = item.replace("{person}", f.rng.choice(people)).replace("{other}", f.rng.choice(people))
        lines.append(f"{number}. {f.text(named)}")
    return f.text("Minutes of {date}\nPresent: ") + ", ".join(people) + "\n" + "\n".join(lines)


def _conversation(f: Filler) -> str:
    one, other = f.text("{name}"), f.rng.choice(("Agent", "Support", "Clerk"))
    turns = [
        (one, "Hello, my {product} from {company} arrived broken."),
        (other, "I am sorry to hear that. May I have your order number?"),
        (one, "It is {n}{n}-{n}, ordered on {date}."),
        (other, "Thank you. Would you like a new one or your money back?"),
        (one, f.rng.choice(("A new one, please.", "My money back, please.", "What would be faster?"))),
        (other, "It will take {hours} days. You get an e-mail with all details."),
        (one, f.rng.choice(("Great, thank you!", "That is quite long, but all right.", "Can it be sent to {city}?"))),
    ]
    return "\n".join(f"{who}: {f.text(what)}" for who, what in turns[: f.rng.randint(4, len(turns))])


def _review(f: Filler) -> str:
    praise = ["It feels solid.", "Delivery took only {hours} days.", "My {relative} loves it.", "Easy to clean.",
              "The price of {price} dollars is fair.", "Setting it up took {n} minutes."]  # fmt: skip
    criticism = ["The manual is useless.", "After {hours} weeks it started to squeak.", "It is heavier than expected.",
                 "Support in {city} never answered.", "The colour differs from the picture."]  # fmt: skip
    parts = f.rng.sample(praise, f.rng.randint(1, 4)) + f.rng.sample(criticism, f.rng.randint(1, 3))
    f.rng.shuffle(parts)
    return f.text(f"I bought {{product}} in {{year}}. {' '.join(parts)} {f.rng.randint(1, 5)} of 5 stars.")


def _notice(f: Filler) -> str:
    lines = [
        "From {date} the office in {city} opens at {time} instead of {time}.",
        "The water will be turned off on {date} between {time} and {time}.",
        "The fee rises from {n} to {n} dollars a month.",
        "The library is closed from {date} to {date}.",
        "Please do not park in front of house number {n} on {date}.",
        "Monday to Friday {time} to {time}, Saturday until {time}.",
        "Questions: {name} {surname}, phone 555-0{n}{n}.",
        "Dogs must be kept on a lead in the yard.",
    ]
    return f.text("Notice\n\n") + "\n".join(f.text(one) for one in f.rng.sample(lines, f.rng.randint(2, 5)))


def _recipe(f: Filler) -> str:
    things = ["flour", "sugar", "butter", "milk", "rice", "tomatoes", "carrots", "grated cheese", "lentils", "onions"]
    chosen = f.rng.sample(things, f.rng.randint(3, 6))
    listed = "\n".join(f"- {f.rng.randint(1, 12) * 25} g {one}" for one in chosen)
    steps = [
        f"Mix the {chosen[0]} and the {chosen[1]} in a bowl.",
        f"Add the {chosen[2]} and stir for {f.rng.randint(2, 9)} minutes.",
        f.text("Let it rest for {n} minutes."),
        f.text("Bake it for {n} minutes at ") + f"{f.rng.randint(15, 23) * 10} degrees.",
        "Season with salt and pepper and serve hot.",
    ]
    return f.text("{food}, for {hours} people\n\n") + listed + "\n\n" + " ".join(steps[: f.rng.randint(3, 5)])


def _invoice(f: Filler) -> str:
    items = [(f.text("{product}"), f.rng.randint(1, 9), f.rng.randint(200, 9000)) for _ in range(f.rng.randint(2, 4))]
    lines = [f"{count} x {name}: {count * cents / 100:.2f}" for name, count, cents in items]
    total = sum(count * cents for _, count, cents in items) / 100
    head = f.text("Invoice {year}-{n}{n}\n{company}, {city}\nCustomer: {name} {surname}, {city}\nDate: {date}\n\n")
    return head + "\n".join(lines) + f"\n\nTotal: {total:.2f}\n" + f.text("Please pay by {date}.")


def _order(f: Filler) -> str:
    items = [f"{f.rng.randint(1, 20)} {f.text('of {product}')}" for _ in range(f.rng.randint(2, 4))]
    body = ", ".join(items[:-1]) + " and " + items[-1]
    return f.text(
        f"Dear team at {{company}}, please send us {body}. Delivery to {{city}} by {{date}}. {{name}} {{surname}}"
    )


def _log(f: Filler) -> str:
    messages = {
        "INFO": ["service started on port {port}", "request from {city} answered in {n} ms", "{n} files loaded",
                 "user {name} logged in", "cache cleared"],
        "WARN": ["disk usage at {pct}%", "slow query on {table}: {n}00 ms", "retry {hours} of 9"],
        "ERROR": ["could not open {file}", "timeout after {n} s", "connection to {table} lost", "out of memory"],
    }  # fmt: skip
    second, lines = f.rng.randint(25_000, 70_000), []
    for _ in range(f.rng.randint(5, 10)):
        second += f.rng.randint(1, 400)
        level = f.rng.choice(("INFO", "INFO", "INFO", "WARN", "ERROR"))
        stamp = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        lines.append(f"{stamp} {level} {f.text(f.rng.choice(messages[level]))}")
    return "\n".join(lines)


def _table_rows(f: Filler) -> list[list[str]]:
    columns = list(dict.fromkeys(["name", *f.several("column", 2, 4)]))
    named: dict[str, Callable[[], str]] = {
        "city": lambda: f.text("{city}"),
        "country": lambda: f.text("{country}"),
        "status": lambda: f.rng.choice(("open", "closed", "waiting")),
        "category": lambda: f.rng.choice("ABCD"),
        "name": lambda: f.text(f.rng.choice(("{name}", "{name}", "{surname}"))),
        "price": lambda: f.text("{price}"),
    }
    rows = [[named.get(one, lambda: f.text("{n}"))() for one in columns] for _ in range(f.rng.randint(3, 7))]
    return [columns, *rows]


def _csv(f: Filler) -> str:
    separator = f.rng.choice((",", ",", ";"))
    return "\n".join(separator.join(row) for row in _table_rows(f))


def _markdown_table(f: Filler) -> str:
    head, *rows = _table_rows(f)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in lines)


def _object(f: Filler) -> dict[str, Any]:
    column = f.several("column", 3, 5)
    values: dict[str, Any] = {"id": f.rng.randint(100, 9999), "name": f.text("{product}")}
    for one in column:
        values[one] = f.rng.choice((f.rng.randint(1, 99), f.text("{city}"), f.rng.random() < 0.5, f.text("{date}")))
    if f.rng.random() < 0.5:
        values["owner"] = {"name": f.text("{name} {surname}"), "city": f.text("{city}")}
    if f.rng.random() < 0.5:
        values["tags"] = f.several("quality", 2, 4)
    return values


def _yaml(f: Filler) -> str:
    lines = [f.text("service: {function}\nport: {port}"), f"timeout: {f.rng.randint(1, 9) * 10}"]
    lines += [f"{one}: {f.word('n')}" for one in f.several("column", 1, 3)]
    hosts = [f.word("city").lower().replace(" ", "-") for _ in range(f.rng.randint(1, 3))]
    lines += ["servers:", *(f.text(f"  - host: {host}.example\\n    weight: {{hours}}") for host in hosts)]
    if f.rng.random() < 0.5:
        lines += ["logging:", "  level: info", f"  file: {f.word('file')}", f"  timeout: {f.rng.randint(1, 9)}"]
    return "\n".join(lines)


def _bullets(f: Filler) -> str:
    name = f.rng.choice(("city", "food", "object", "animal", "job", "product", "subject", "activity"))
    return "\n".join(f"- {one}" for one in f.several(name, 4, 9))


def _contacts(f: Filler) -> str:
    form = f.rng.choice(("{name} {surname}, {city}, 555-0{n}{n}", "{surname}, {name} ({city}) tel. 0{n} {n} {n}"))
    return "\n".join(f.text(form) for _ in range(f.rng.randint(3, 6)))


def _schedule(f: Filler) -> str:
    form = f.rng.choice(("{time} {activity} ({name})", "{date}, {time}: {activity}, room {n}"))
    return "\n".join(f.text(form) for _ in range(f.rng.randint(3, 6)))


def _verse(f: Filler) -> str:
    line = f.rng.choice(("The {object} waits for the {animal},", "No {animal} has seen the {object},"))
    rest = ["and evening falls on {city},", "the {job} hums an old, old song,", "the night is full of {quality}."]
    return "\n".join(f.text(one) for one in (line, *rest))


def _misspelt(f: Filler) -> str:
    """Sentences in which two letters of some words are exchanged."""
    words = " ".join(f.passage()).split()
    return " ".join(_exchanged(word, f.rng) if f.rng.random() < 0.15 else word for word in words)


def _exchanged(word: str, rng: random.Random) -> str:
    if len(word) < 5 or not word.isalpha():
        return word
    at = rng.randint(1, len(word) - 3)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]


def _unpunctuated(f: Filler) -> str:
    return " ".join(f.passage()).replace(",", "").replace(".", "").lower()


def _sequence(f: Filler) -> str:
    start, step = f.rng.randint(1, 20), f.rng.randint(2, 9)
    grow: Callable[[int], int] = (lambda i: start + i * step) if f.rng.random() < 0.6 else (lambda i: start * 2**i)
    return ", ".join(str(grow(i)) for i in range(4))


_ABBREVIATED = (
    "approx. {n} km from {city}, Mon.-Fri., tel. 555-0{n}, max. {hours} pers.",
    "mtg. w/ {name} re: {product}, Tue. {time}, rm. {n}, pls. confirm asap",
    "Dr. {surname}, St. {name} Hosp., dept. {n}, appt. {date} a.m.",
)

DOCUMENTS: dict[str, Callable[[Filler], str]] = {
    "article": _article,
    "email": _email,
    "minutes": _minutes,
    "conversation": _conversation,
    "review": _review,
    "notice": _notice,
    "recipe": _recipe,
    "invoice": _invoice,
    "order": _order,
    "log": _log,
    "csv": _csv,
    "markdown_table": _markdown_table,
    "json_document": lambda f: json.dumps(_object(f), indent=f.rng.choice((2, 2, 4)), ensure_ascii=False),
    "yaml_document": _yaml,
    "bullets": _bullets,
    "contacts": _contacts,
    "schedule": _schedule,
    "verse": _verse,
    "misspelt": _misspelt,
    "unpunctuated": _unpunctuated,
    "sequence": _sequence,
    "abbreviated": lambda f: f.text(f.rng.choice(_ABBREVIATED)),
    **PROGRAMS,
}
