"""Writing whole files or none, and a table in every format."""

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from plots import console, documents
from plots.tables import Table

WRITERS: dict[str, Callable[[Table], str]] = {
    "txt": console.render,
    "md": documents.markdown,
    "csv": documents.csv_text,
    "tex": documents.latex,
}


def write_tables(tables: Sequence[Table], directory: Path) -> None:
    texts = {f"{t.name}.{suffix}": write(t) for t in tables for suffix, write in WRITERS.items()}
    for name, text in texts.items():
        write_text(directory / name, text)


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 with plain newlines, atomically."""
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode("utf-8")))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`.

    A reader sees the old file or the new one, never half of it, whatever happens to this process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept at the end because matplotlib takes the format from it.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".tmp-", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
