"""JSON files and their schemas; whatever is wrong with a file is one line that names it."""

import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any

import fastjsonschema

from claims.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


def read_json(file: Path) -> Any:
    """The file's value; InputError where it cannot be read or is not JSON with finite numbers."""
    try:
        text = file.read_bytes().decode("utf-8")
        return json.loads(text, parse_constant=finite, parse_float=finite, parse_int=whole)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not text in UTF-8") from None
    except RecursionError:
        raise InputError(f"{file}: is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{file}: is not whole JSON: {error}") from None


def finite(text: str) -> float:
    """The number that `text` says; JSON allows neither NaN nor Infinity, nor do we 1e999."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is no finite number")
    return value


def whole(text: str) -> int:
    finite(text)
    return int(text)


class Schema:
    """One JSON Schema file in data/; it is read when the first file is held against it."""

    def __init__(self, name: str):
        self.name = f"data/{name}"

    @cached_property
    def definition(self) -> dict[str, Any]:
        return read_json(ROOT / self.name)

    @cached_property
    def validate(self) -> Any:
        return fastjsonschema.compile(self.definition)

    def check(self, file: Path, value: Any) -> None:
        """InputError naming file and field where `value`, the file's, is not as the schema says."""
        version = self.definition["properties"].get("schema", {}).get("const")
        if isinstance(value, dict) and value.get("schema", version) != version:
            raise self.error(file, "schema", f"must be {version}, not {value['schema']}")
        try:
            self.validate(value)
        except fastjsonschema.JsonSchemaValueException as error:
            where = error.name.removeprefix("data").removeprefix(".")
            raise self.error(file, where or "the file", explain(error)) from None

    def error(self, file: Path, where: str, problem: str) -> InputError:
        return InputError(f"{file}: {where} {problem} (see {self.name})")


def explain(error: fastjsonschema.JsonSchemaValueException) -> str:
    """What is wrong, without the place; the validator's own words where they are plain."""
    value, allowed = error.value, error.rule_definition
    if error.rule == "required":
        return f"lacks {', '.join(repr(name) for name in allowed if name not in value)}"
    if error.rule == "additionalProperties":
        unknown = sorted(set(value) - set(error.definition.get("properties", {})))
        return f"has {', '.join(map(repr, unknown))}, which it must not have"
    text = error.message.removeprefix(error.name).strip()
    if error.rule in ("enum", "const"):
        names = allowed if error.rule == "enum" else [allowed]
        text = f"must be {'one of ' * (len(names) > 1)}{', '.join(map(str, names))}"
    shown = f", not {json.dumps(value)[:40]}" if not isinstance(value, dict | list) else ""
    return text + shown
