"""The two sides of a comparison: the user's result files and their provenance."""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from reprolab import comparison
from reprolab.captions import banner, clocks, commit, dates, driver
from reprolab.errors import InputError
from reprolab.interruption import held
from reprolab.json_files import ROOT
from reprolab.printable import printable
from reprolab.results import Results, age, is_json, recorded_folder, result_files
from reprolab.sources import git


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
    """A side from a result file, a folder of them, or REV:PATH: a file or folder in a commit."""
    revision, colon, path = given.partition(":")
    if Path(given).exists() or not colon:
        return side_of(given, Path(given))
    commit_id = git("rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    if not commit_id:
        raise InputError(f"{revision}: names no commit of this repository")
    listed = git("ls-tree", "-r", "-z", "--name-only", commit_id, "--", path)
    if not listed or Path(path).is_absolute():
        raise InputError(f"{revision}:{path}: is not in that commit")
    with held(), TemporaryDirectory() as folder:  # else a signal leaves the folder
        for name in filter(is_json, listed.split("\0")):
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            show = ["git", "cat-file", "blob", f"{commit_id}:{name}"]
            file.write_bytes(subprocess.run(show, cwd=ROOT, capture_output=True, check=True).stdout)
        try:
            return side_of(given, Path(folder, path))
        except InputError as error:
            raise InputError(str(error).replace(f"{folder}/", f"{revision}:")) from None


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
