"""JSON files and their schemas; an error in a file is one line that names it."""

import json
import lzma
import os
from functools import cached_property
from pathlib import Path
from typing import Any

import fastjsonschema

from reprolab.errors import InputError, shortened

ROOT = Path(__file__).resolve().parents[1]


def stored(file: Path) -> Path:
    """x.json.xz where there is that and no x.json: recorded files are compressed."""
    compressed = file.with_name(f"{file.name}.xz")
    return compressed if not os.path.lexists(file) and compressed.is_file() else file


def read_text(file: Path) -> str:
    """The file's text, compressed if its name ends with .xz."""
    try:
        content = file.read_bytes()
        return (lzma.decompress(content) if file.suffix == ".xz" else content).decode("utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (lzma.LZMAError, EOFError) as error:
        raise InputError(f"{file}: is not a whole .xz file: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not text in UTF-8") from None


def read_json(file: Path) -> Any:
    """The file's value; `file` as it is, or compressed next to it."""
    try:
        return json.loads(read_text(stored(file)))
    except json.JSONDecodeError as error:
        raise InputError(f"{file}: is not whole JSON: {error}") from None


class Schema:
    """One JSON Schema of data/, compiled when the first file is checked."""

    def __init__(self, name: str):
        self.name = f"data/{name}"

    @cached_property
    def definition(self) -> dict[str, Any]:
        return read_json(ROOT / self.name)

    @cached_property
    def validate(self) -> Any:
        return fastjsonschema.compile(self.definition)

    @property
    def version(self) -> str | None:
        """The schema that its files name; None if they name none."""
        return self.definition.get("properties", {}).get("schema", {}).get("const")

    def read(self, file: Path) -> Any:
        """The file's value, checked."""
        content = read_json(file)
        self.check(file, content)
        return content

    def check(self, file: Path, value: Any) -> None:
        """InputError with file and field if the file's value violates the schema."""
        try:
            self.validate(value)
        except fastjsonschema.JsonSchemaValueException as error:
            where = error.name.removeprefix("data").removeprefix(".") or "the file"
            problem = shortened(error.message.removeprefix(error.name).strip(), 200)
            line = f"{file}: {shortened(where, 200)} {problem} (see {self.name})"
            raise InputError(line) from None
