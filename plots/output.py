"""What the subcommands share when they write: all formats of a table, and what lies there."""

from collections.abc import Callable
from pathlib import Path

from plots import console, documents
from plots.files import write_text
from plots.tables import Table

WRITERS: dict[str, Callable[[Table], str]] = {
    "txt": console.render,
    "md": documents.markdown,
    "csv": documents.csv_text,
    "tex": documents.latex,
}


def rendered(tables: list[Table]) -> dict[str, str]:
    """File name -> text, for every table in every format."""
    return {
        f"{table.name}.{suffix}": write(table)
        for table in tables
        for suffix, write in WRITERS.items()
    }


def write_tables(tables: list[Table], directory: Path) -> None:
    for name, text in rendered(tables).items():
        write_text(directory / name, text)
