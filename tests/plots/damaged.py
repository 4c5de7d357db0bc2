"""Every way to damage one field of a JSON file."""

import copy
import json
import os
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

ALL = os.environ.get("FUZZ") == "all"
SAMPLED = 30

# As JSON says it, since some of it cannot be said by a Python value.
ODD = {
    "null": "null",
    "true": "true",
    "minus one": "-1",
    "zero": "0",
    "tiny": "5e-324",
    "huge": "1e308",
    "infinite": "1e999",
    "huge integer": "1" + "0" * 400,
    "long integer": "1" + "0" * 300,
    "NaN": "NaN",
    "an empty text": '""',
    # A new line, a terminal's commands, half a character, a column and raw HTML, mathematics.
    "an odd text": r'"=a\nb\u001b[31m\u0085\u202e\ud800 | `<b>` $\\frac$ \\"',
    "a long text": '"' + "x" * 100_000 + '"',
    "an empty list": "[]",
    "an empty object": "{}",
    "a list": "[null, 1]",
    "a list of texts": r'["\n"]',
    "an object": '{"name": 1}',
    "a deep list": "[" * 10_000 + "]" * 10_000,
    "a less deep list": "[" * 300 + "]" * 300,
}
PLACE = "@@the place@@"

Place = tuple[str | int, ...]


def places(value: Any, path: Place = (), every: bool = False) -> Iterator[Place]:
    """Every field, and of each list the first item, or `every` one; of records, first and last."""
    yield path
    if isinstance(value, dict):
        for name, found in value.items():
            yield from places(found, (*path, name), every)
    elif isinstance(value, list) and value:
        ends = {0, len(value) - 1} if path == ("records",) else {0}
        for i in range(len(value)) if every else ends:
            yield from places(value[i], (*path, i), every)


def parent_of(file: Any, path: Place) -> Any:
    for step in path[:-1]:
        file = file[step]
    return file


def damaged(file: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What was done and the file's text: each field odd, left out, or there twice. One of SAMPLED,
    unless FUZZ=all asks for each.
    """
    rng = random.Random(1)
    every = chain.from_iterable(ways(file, path) for path in places(file))
    return (found for found in every if ALL or rng.randrange(SAMPLED) == 0)


def ways(file: dict[str, Any], path: Place) -> Iterator[tuple[str, str]]:
    """The same of one field."""
    where = ".".join(map(str, path)) or "the file"
    if not path:
        yield from ((f"{where}: {what}", text) for what, text in ODD.items())
        return
    spoilt = copy.deepcopy(file)
    parent_of(spoilt, path)[path[-1]] = PLACE
    text = json.dumps(spoilt)
    for what, odd in ODD.items():
        yield f"{where}: {what}", text.replace(f'"{PLACE}"', odd)
    if isinstance(path[-1], str):
        twice = f'"{path[-1]}": "{PLACE}"', f'"{path[-1]}": null, "{path[-1]}": null'
        assert twice[0] in text
        yield f"{where}: twice", text.replace(*twice)
    spoilt = copy.deepcopy(file)
    del parent_of(spoilt, path)[path[-1]]
    yield f"{where}: left out", json.dumps(spoilt)


def sampled(file: dict[str, Any], most: int) -> Iterator[tuple[str, str]]:
    """One damage of each of some fields, always the same ones. FUZZ=all in the environment: every
    damage of every field, which takes hours.
    """
    paths, rng = list(places(file, every=True)), random.Random(1)
    for path in paths if ALL else rng.sample(paths, most):
        found = list(ways(file, path))
        yield from found if ALL else [rng.choice(found)]


def write(folder: Path, name: str, text: str) -> None:
    (folder / f"{Path(name).name}.json").write_text(text, encoding="utf-8")
