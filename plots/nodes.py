"""JSON, checked field by field, with errors that name the file and the field."""

import json
import math
from pathlib import Path
from typing import Any

from plots.errors import InputError

DESCRIBED_IN = "experiments/harness/RESULTS.md"

KINDS: dict[str, type | tuple[type, ...]] = {
    "a string": str,
    "a number": (int, float),
    "an integer": int,
    "true or false": bool,
    "a list": list,
    "an object": dict,
}


class Node:
    """A JSON object that knows its file and path, so that an error can name both."""

    def __init__(self, file: Path, path: str, value: dict[str, Any]):
        self.file, self.path, self.value = file, path, value

    def fail(self, name: str, problem: str) -> InputError:
        where = f"{self.path}.{name}" if self.path else name
        return InputError(f"{self.file}: {where} {problem} (see {DESCRIBED_IN})")

    def take(self, name: str, kind: str, null: bool = False) -> Any:
        """The field `name`, which must be there and of `kind`; null only where `null` says so."""
        if name not in self.value:
            raise self.fail(name, f"is missing: {kind} is needed")
        value = self.value[name]
        if value is None and null:
            return None
        is_stray_bool = isinstance(value, bool) and kind != "true or false"
        if not isinstance(value, KINDS[kind]) or is_stray_bool:
            raise self.fail(name, f"must be {kind}, not {json.dumps(value)[:40]}")
        if isinstance(value, float) and not math.isfinite(value):
            raise self.fail(name, f"must be {kind} and finite, not {value}")
        return value

    def one_of(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.take(name, "a string")
        if value not in allowed:
            raise self.fail(name, f"must be one of {', '.join(allowed)}, not '{value}'")
        return value

    def child(self, name: str, null: bool = False) -> "Node":
        """The object `name`; an empty one where it is null and may be."""
        value = self.take(name, "an object", null)
        return Node(self.file, f"{self.path}.{name}" if self.path else name, value or {})

    def children(self, name: str) -> list["Node"]:
        nodes = []
        for i, value in enumerate(self.take(name, "a list")):
            if not isinstance(value, dict):
                raise self.fail(f"{name}[{i}]", "must be an object")
            path = f"{self.path}.{name}[{i}]" if self.path else f"{name}[{i}]"
            nodes.append(Node(self.file, path, value))
        return nodes

    def samples(self, name: str) -> tuple[float, ...]:
        values = self.take(name, "a list")
        for i, value in enumerate(values):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not math.isfinite(value) or value <= 0:
                raise self.fail(f"{name}[{i}]", f"must be a time above 0, not {json.dumps(value)}")
        return tuple(float(value) for value in values)


def read_json(file: Path) -> Node:
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{file}: is not whole JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{file}: must hold one JSON object (see {DESCRIBED_IN})")
    return Node(file, "", value)
