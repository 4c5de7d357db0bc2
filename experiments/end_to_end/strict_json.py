"""JSON from files that are not trusted: as reference/checkpoint/strict_json.cpp takes it."""

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from records.json_files import unique

LONGEST_NUMBER = 1000  # characters


def number(text: str) -> float:
    if len(text) > LONGEST_NUMBER or not math.isfinite(float(text)):
        raise ValueError(f"{text[:20]} is out of range")
    return float(text)


def whole_number(text: str) -> float:
    """-0 is a number, but no whole one."""
    value = number(text)
    return value if text == "-0" else int(text)


def strict_json(text: bytes, depth: int, constant: Callable[[str], Any] = number) -> dict[str, Any]:
    """The object; ValueError with what is wrong with the text, to follow its name.

    `depth`: of objects and lists inside each other. `constant`: the values of NaN and Infinity.
    """
    hooks = {"parse_constant": constant, "parse_float": number, "parse_int": whole_number}
    try:
        value = json.loads(text.decode(), object_pairs_hook=unique, **hooks)
        if b"\\u" in text:  # half a character, which Python alone takes
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ValueError("is not whole JSON with each name once and numbers in range") from None
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")
    level: list[Any] = [value]
    for _ in range(depth):
        level = [part for outer in level for part in parts(outer) if isinstance(part, dict | list)]
    if level:
        raise ValueError(f"nests deeper than {depth} levels")
    return value


def parts(outer: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return outer.values() if isinstance(outer, dict) else outer
