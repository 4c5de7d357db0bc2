"""JSON files and their schemas; an error in a file is one line that names it."""

import json
import lzma
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import fastjsonschema

from reprolab.errors import InputError
from reprolab.printable import printable, shortened

ROOT = Path(__file__).resolve().parents[1]


def read_json(file: Path) -> Any:
    """The file's value with printable texts; `file` as it is, or compressed beside.

    InputError if it cannot be read, or is not JSON with finite numbers and unique names.
    """
    hooks = {"parse_constant": finite, "parse_float": finite, "parse_int": whole}
    try:
        text = read_text(stored(file))
        value = json.loads(text, object_pairs_hook=unique, **hooks)
        return value if all_printable_in(text) else all_printable(value)
    except RecursionError:
        raise InputError(f"{file}: is nested too deeply") from None
    except MemoryError:
        raise InputError(f"{file}: does not fit the memory") from None
    except ValueError as error:
        raise InputError(f"{file}: is not whole JSON: {error}") from None


def stored(file: Path) -> Path:
    """x.json.xz where there is that and no x.json: recorded files are compressed."""
    compressed = file.with_name(f"{file.name}.xz")
    return compressed if not os.path.lexists(file) and compressed.is_file() else file


def read_text(file: Path) -> str:
    """The text of a regular file, compressed if its name ends with .xz, because reading a pipe would block. A file larger than the
    machine's memory is refused, because the system would kill the process.
    """
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{file}: cannot be read: it is not a regular file")
        if status.st_size > os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2:
            raise InputError(f"{file}: does not fit the memory")
        content = file.read_bytes()
        return (lzma.decompress(content) if file.suffix == ".xz" else content).decode("utf-8")
    except (lzma.LZMAError, EOFError) as error:
        raise InputError(f"{file}: is not a whole .xz file: {error}") from None
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not text in UTF-8") from None


def all_printable_in(text: str) -> bool:
    """Whether every text in this JSON is printable as it stands, as in nearly every result file of
    millions: without an escape nothing else can come out of it.
    """
    return "\\" not in text and text.translate(JSON_SPACE).isprintable()


JSON_SPACE = str.maketrans(dict.fromkeys("\t\n\r", " "))


def all_printable(value: Any) -> Any:
    """The value with every text in it, including names, made printable."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [all_printable(inner) for inner in value]
    if isinstance(value, dict):
        return {printable(name): all_printable(inner) for name, inner in value.items()}
    return value


def unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these names and values; a repeated name is ambiguous, hence an error."""
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"'{shortened(name)}' comes twice in one object")
        members[name] = value
    return members


def finite(text: str) -> float:
    """The number `text`; JSON allows neither NaN nor Infinity, and we do not allow 1e999."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def whole(text: str) -> int:
    finite(text)
    return int(text)


SCHEMA_ERRORS = (
    fastjsonschema.JsonSchemaValueException,
    fastjsonschema.JsonSchemaDefinitionException,
    re.error,
    AttributeError,
)


class Schema:
    """One JSON Schema file in data/, read when the first file is validated.

    `unique`: by the name of a list of objects, the field that identifies them.
    """

    def __init__(self, name: str, unique: Mapping[str, str] = MappingProxyType({})):
        self.name = f"data/{name}"
        self.unique = unique

    @cached_property
    def definition(self) -> dict[str, Any]:
        """The schema in the file; InputError for an unknown keyword, which a validator would
        ignore."""
        schema = read_json(ROOT / self.name)
        if self is not OF_SCHEMAS:
            OF_SCHEMAS.check(ROOT / self.name, schema)
        return schema

    @cached_property
    def validate(self) -> Any:
        try:
            validator = fastjsonschema.compile(self.definition)
            if self is OF_SCHEMAS:
                validator(self.definition)
                self.check_guard(validator)
            return validator
        except SCHEMA_ERRORS as error:
            raise InputError(f"{ROOT / self.name}: is not a JSON Schema: {error}") from None

    def check_guard(self, validate: Callable[[Any], Any]) -> None:
        """InputError if a misspelt keyword would pass, at the root or below."""
        misspelt = {"misspelt": 0}
        for schema in (misspelt, {"properties": {"a": misspelt}}):
            with suppress(fastjsonschema.JsonSchemaValueException):
                validate(schema)
                raise InputError(f"{ROOT / self.name}: allows keywords that it does not have")

    @property
    def version(self) -> str | None:
        """The schema that its files name; None if they name none."""
        return self.definition.get("properties", {}).get("schema", {}).get("const")

    def read(self, file: Path) -> Any:
        """The file's value, validated."""
        content = read_json(file)
        self.check(file, content)
        return content

    def check(self, file: Path, value: Any) -> None:
        """InputError with file and field if `value`, the file's, violates the schema."""
        version = self.version
        if isinstance(value, dict) and value.get("schema", version) != version:
            raise self.error(file, "schema", f"must be {version}, not {shown(value['schema'])}")
        try:
            self.validate(value)
        except fastjsonschema.JsonSchemaValueException as error:
            where = shortened(error.name.removeprefix("data").removeprefix("."), 200)
            raise self.error(file, where or "the file", explain(error)) from None
        for name, field in self.unique.items():
            known = set()
            for i, entry in enumerate(value[name]):
                if entry[field] in known:
                    again = f"is a duplicate: '{shortened(entry[field])}'"
                    raise self.error(file, f"{name}[{i}].{field}", again)
                known.add(entry[field])

    def error(self, file: Path, where: str, problem: str) -> InputError:
        return InputError(f"{file}: {where} {problem} (see {self.name})")


OF_SCHEMAS = Schema("schema.schema.json")


def explain(error: fastjsonschema.JsonSchemaValueException) -> str:
    """The error without the place, in the validator's words if they are plain."""
    value, allowed = error.value, error.rule_definition
    if error.rule == "required":
        return f"lacks {', '.join(repr(name) for name in allowed if name not in value)}"
    if error.rule == "additionalProperties":
        unknown = sorted(set(value) - set(error.definition.get("properties", {})))
        return f"has {shortened(', '.join(map(repr, unknown)))}, which it must not have"
    text = error.message.removeprefix(error.name).strip()
    if error.rule == "enum":
        text = f"must be {'one of ' * (len(allowed) > 1)}{', '.join(map(str, allowed))}"
    if error.rule == "const":
        text = f"must be {allowed}"
    return f"{text}, not {shown(value)}" if not isinstance(value, dict | list) else text


def shown(value: Any) -> str:
    """The beginning of a wrong value as JSON; for a list or an object only its kind."""
    kind = {dict: "an object", list: "a list"}.get(type(value))
    return kind or shortened(json.dumps(value, ensure_ascii=False, default=str), 40)
