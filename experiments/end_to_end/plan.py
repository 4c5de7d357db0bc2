"""The plan of a run: its cells, and the rows that are compared in each."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.end_to_end import prompts, sizes
from experiments.end_to_end.protocol import EAGER, INSTALLED, PROFILE, TIMING
from experiments.end_to_end.rows import FUSED, Row, require_distinct, version_of
from experiments.end_to_end.sizes import Model
from reprolab.command_line import numbers
from reprolab.errors import InputError

PASSES = (TIMING, PROFILE)  # on the host's clock and events; by CUPTI
BASELINE = "branch_tree"
SWEPT = ("shared_lut", "streaming")  # measured with it by default
AS_INSTALLED = "installed"  # bitsandbytes, as KERNELS names it
KINDS = ("kernel", "peer", "fused", "installed")  # of rows, in their order
TOKENS, QUICK_TOKENS = 32, 4
QUICK_PROFILED = 1
# Generations per row, before those that are measured and measured.
WARM_UP, SAMPLES = sizes.PROTOCOL["warmup_passes"], sizes.PROTOCOL["profiled_passes"]
# New tokens of a generation whose decoding steps are alike, so that the first ones suffice.
SHORT = {TIMING: 8, PROFILE: 4}


@dataclass(frozen=True)
class Choices:
    """The user's choices; `models`: built from their sizes, or one checkpoint; `generations`: of
    each row in eager timing, where the host's time is in every sample; elsewhere SAMPLES suffice.
    """

    models: tuple[str, ...]
    batches: tuple[int, ...]
    rows: tuple[Row, ...]
    tokens: int = TOKENS
    generations: int = SAMPLES
    profiled_generations: int = SAMPLES


@dataclass(frozen=True)
class Cell:
    """A model at a batch, all its rows measured interleaved; one result file."""

    choices: Choices
    pass_name: str
    model: str
    batch: int

    @property
    def name(self) -> str:
        """The prefix of its file's name."""
        return f"{plain_name(self.model)}.{self.pass_name}.batch{self.batch}"

    def file(self, output: Path) -> Path:
        """Its part of the result file `output`, which names the command that measured it."""
        return output.parent / "parts" / f"{self.name}.json"

    @property
    def text(self) -> str:
        return f"{plain_name(self.model)}, batch {self.batch}"

    @property
    def size(self) -> Model | None:
        """None for a checkpoint, whose sizes are known when it is loaded."""
        return sizes.known().get(self.model)

    def samples(self, mode: str) -> int:
        """Measured generations of a row."""
        if self.pass_name == PROFILE:
            return self.choices.profiled_generations
        return self.choices.generations if mode == EAGER else SAMPLES

    @property
    def short(self) -> int:
        """New tokens of a generation of which only the first steps are computed."""
        return min(SHORT[self.pass_name], self.choices.tokens)

    def new_tokens(self, mode: str) -> int:
        """New tokens of each measured generation: all in eager timing, where the host's time is in
        every step.
        """
        whole = self.pass_name == TIMING and mode == EAGER
        return self.choices.tokens if whole else self.short

    @property
    def bytes_needed(self) -> int | None:
        """About the GPU memory of a run; None for a checkpoint."""
        longest = max(prompts.lengths()[: self.batch])
        tokens = self.choices.tokens
        return self.size.bytes_needed(self.batch, longest, tokens) if self.size else None


def plain_name(model: str) -> str:
    """A checkpoint's name for files and tables: its folder's, but never the name of a model with
    random weights.
    """
    name = re.sub(r"[^\w.-]+", "-", Path(model).name.lower())[:80] or "checkpoint"
    is_taken = name in sizes.known() and model != name
    return f"{name}-checkpoint" if is_taken else name


def choose(
    model: str = "",
    batches: str = "",
    kernels: str = "",
    peer: Sequence[str] = (),
    tokens: int | None = None,
    generations: int | None = None,
    quick: bool = False,
) -> Choices:
    """The choices by option, which are make's variables; InputError where one of them is wrong."""
    ours = sizes.PROTOCOL["models"].values()
    models = [model] if model else [m for group in ours for m in (group[:1] if quick else group)]
    is_checkpoint = bool(model) and model not in sizes.known()
    if is_checkpoint and not Path(model).is_dir():
        listed = ", ".join(sizes.known())
        raise InputError(
            f"MODEL: folder '{model}' does not exist; give a checkpoint's, or one of {listed}"
        )
    every = sizes.PROTOCOL["batches"]
    counts = {"tokens": QUICK_TOKENS, "profiled_generations": QUICK_PROFILED} if quick else {}
    given = {"tokens": tokens, "generations": generations}
    choices = Choices(
        models=tuple(models),
        batches=numbers("BATCHES", batches) or tuple((every[0], every[-1]) if quick else every),
        rows=rows_of(kernels, peer, is_checkpoint),
        **counts | {name: count for name, count in given.items() if count is not None},
    )
    if choices.tokens < 2:
        raise InputError("TOKENS: give 2 at least: the first comes with the prompt")
    if min(choices.batches) < 1:
        raise InputError("BATCHES: give 1 at least")
    if choices.generations < 1:
        raise InputError("GENERATIONS: give 1 at least")
    return choices


def rows_of(kernels: str, peers: Sequence[str], is_checkpoint: bool) -> tuple[Row, ...]:
    """The baseline, the rows that `kernels` names, and the peers. Without names: the kernels that
    are swept, products by measured times, and bitsandbytes as it is installed.
    """
    kernel_names = [*filter(None, re.split(r"[,|\s]+", kernels))]
    rows = {name: Row(name, "fused") for name in FUSED} | {
        AS_INSTALLED: Row(INSTALLED, "installed")
    }
    by_default = [*SWEPT, *list(FUSED)[: 1 + is_checkpoint], AS_INSTALLED]
    names = dict.fromkeys([BASELINE, *(kernel_names or by_default)])
    ours = [rows.get(name, Row(name)) for name in names]
    others = [peer_row(peer) for peer in peers]
    ordered = sorted([*ours, *others], key=lambda row: KINDS.index(row.kind))
    require_distinct([row.kernel for row in ordered])
    return tuple(ordered)


def peer_row(argument: str) -> Row:
    """'path' or 'name=path'; the same names as the programs give."""
    name, equals, path = argument.partition("=")
    if not equals or "/" in name:
        name, path = "", argument
    file = Path(path)
    if not file.is_file():
        raise InputError(f"peer {path}: no such file; give the path of libbitsandbytes_cuda*.so")
    own = version_of(file) or file.stem.partition("_")[2] or file.stem
    return Row(name or f"bitsandbytes_{own}", "peer", str(file.resolve()))


def cells(choices: Choices, pass_name: str) -> list[Cell]:
    each = ((model, batch) for model in choices.models for batch in choices.batches)
    return [Cell(choices, pass_name, model, batch) for model, batch in each]
