"""The two sides of a comparison: the user's result files and their provenance."""

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from records import comparison
from records.captions import banner, clocks, commit, dates, driver
from records.errors import InputError
from records.folders import age, recorded_folder, result_files
from records.interruption import held
from records.json_files import ROOT
from records.printable import printable
from records.results import Results
from records.sources import git

ARCHIVE = ".tar.xz"


@dataclass(frozen=True)
class Side:
    """The newest file of each GPU's pass, among files of runs on a GPU."""

    name: str  # the user's argument
    files: tuple[Results, ...]

    @property
    def gpus(self) -> list[str]:
        return sorted({results.gpu for results in self.files})

    @property
    def banner(self) -> str:
        return banner(*self.files) if recorded_folder(self.files[0].file) else ""

    @property
    def machine(self) -> str:
        """GPU, driver, clocks, dates and commits, each once."""
        by_policy: dict[tuple[str, float | None], list[Results]] = {}
        runs = [run for r in self.files for run in r.runs()]
        for r in runs:
            clock = r.provenance["clocks"]
            by_policy.setdefault((clock["policy"], clock["locked_mhz"]), []).append(r)
        parts = list(dict.fromkeys(f"{r.gpu}, {driver(r)}" for r in runs))
        for files in by_policy.values():
            records = [record for r in files for record in r.records]
            parts.append(clocks(replace(files[0], records=tuple(records))))
        commits = ", ".join(dict.fromkeys(commit(r) for r in runs))
        return "; ".join([*parts, dates(self.files), f"commit {commits}"])


def load_side(given: str) -> Side:
    """A side from a result file, a folder of them, an archive of such a folder, or REV:PATH: a file
    or folder in a commit.
    """
    revision, colon, path = given.partition(":")
    if given.endswith(ARCHIVE) and Path(given).is_file():
        with extracted(given, Path(given).read_bytes(), f"{given}/") as folder:
            return side_of(given, folder)
    if Path(given).exists() or not colon:
        return side_of(given, Path(given))
    commit_id = git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    if not commit_id:
        raise InputError(f"{revision}: names no commit of this repository")
    command = ["git", "archive", "--format=tar", commit_id, "--", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True)
    if done.returncode or Path(path).is_absolute():
        raise InputError(f"{revision}:{path}: is not in that commit")
    with extracted(given, done.stdout, f"{revision}:") as folder:
        return side_of(given, folder / path)


@contextmanager
def extracted(given: str, archive: bytes, shown: str) -> Iterator[Path]:
    """A folder with the archive's files; errors name it as `shown`."""
    with held(), TemporaryDirectory() as folder:  # else a signal leaves the folder
        try:
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                files.extractall(folder, filter="data")
            yield Path(folder)
        except (tarfile.TarError, EOFError) as error:
            raise InputError(f"{given}: is not a whole archive: {error}") from None
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", shown)) from None


def side_of(given: str, path: Path) -> Side:
    newest = {(r.gpu, r.experiment, r.pass_name): r for r in sorted(result_files(path), key=age)}
    side = Side(printable(given), tuple(results for results in newest.values() if results.gpu))
    if not comparison.times(side.files):
        raise InputError(f"{given}: holds no times")
    return side


def by_gpu(a: Side, b: Side) -> bool:
    """Whether rows are paired by GPU, because a side contains several; InputError if no row can be
    paired.
    """
    if max(len(a.gpus), len(b.gpus)) == 1:
        return False
    if not set(a.gpus) & set(b.gpus):
        holds = " and ".join(f"{side.name} holds {', '.join(side.gpus)}" for side in (a, b))
        raise InputError(f"{holds}: of several GPUs, give the folder of one")
    return True
