"""`make verify`: dequantizes every NF4 weight of a bitsandbytes checkpoint by the reference, and
compares it bit for bit with the outputs in the file and with every kernel of this build.

Exit status: 0 all equal, or different as declared; 1 an output is wrong; 2 wrong usage or a file
that cannot be read; 3 a kernel was not measured, or there was nothing to compare with.
"""

import argparse
import ctypes
import io
import json
import math
import mmap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from reprolab import reference
from reprolab.command_line import Parser, run
from reprolab.errors import NOT_MEASURED, WRONG_OUTPUT, InputError, printable, shortened
from reprolab.output import write_files

INDEX, SINGLE = "model.safetensors.index.json", "model.safetensors"
STATE = ".quant_state.bitsandbytes__nf4"
BLOCK_SIZES = [1 << i for i in range(5, 13)]
DAMAGED = "was the checkpoint downloaded whole?"
SAVE_AGAIN = "give the whole checkpoint, or save it again with bitsandbytes"
# In the order of a summary.
EQUAL = "bit_exact"
OUTCOMES = (EQUAL, "within_bound", "deviation_as_declared", "mismatch", "launch_failed")
OUTCOMES += ("unsupported", "not_measured", "not_verified")
WRONG, NOT_COMPARED = ("mismatch", "launch_failed"), ("unsupported", "not_measured", "not_verified")
SHOWN = (*WRONG, "not_measured")
SUBJECTS = {"reference": "stored outputs", "quantizer": "what was quantized"}  # and kernels
MALFORMED = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
BYTES_PER_WEIGHT = 5  # of the largest tensor
NOTHING = (
    "nothing could be proved here: the checkpoint holds no outputs to compare with, and no kernel "
    "ran; verify it on a machine with a GPU, by a build with CUDA"
)


def parser() -> argparse.ArgumentParser:
    p = Parser(prog="verify", description=__doc__)
    p.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help=".safetensors files of a checkpoint, its folder, or its model.safetensors.index.json",
    )
    p.add_argument("--dry-run", action="store_true", help="print what would be checked, then exit")
    p.add_argument("--list", action="store_true", help="print the NF4 weights as JSON, then exit")
    p.add_argument("--brief", action="store_true", help="only failures and the summary")
    p.add_argument(
        "--dump", type=Path, metavar="DIR", help="write both sides of each mismatch as .npy"
    )
    p.add_argument(
        "--kernel",
        default="",
        metavar="PATTERN",
        help="only these; * ? and | as in a shell's case; ! before it: all others",
    )
    p.add_argument(
        "--peer",
        action="append",
        default=[],
        metavar="PATH",
        help="a bitsandbytes library (libbitsandbytes_cudaNNN.so) to verify as a kernel",
    )
    p.set_defaults(run=verify)
    return p


@dataclass(frozen=True)
class Stored:
    """The place of a tensor in a file."""

    file: Path
    dtype: str
    begin: int
    size: int  # in bytes

    def read(self, dtype: Any) -> np.ndarray:
        return np.fromfile(self.file, np.uint8, self.size, offset=self.begin).view(dtype)


def stored_in(file: Path) -> dict[str, Stored]:
    """The tensors of a .safetensors file: 8 bytes with the length of the header, the header in
    JSON, and the tensors' bytes."""
    try:
        with file.open("rb") as content:
            begin = 8 + int.from_bytes(content.read(8), "little")
            size = file.stat().st_size
            header = json.loads(content.read(max(0, min(begin, size) - 8)))
        header.pop("__metadata__", None)
        places = {name: (str(x["dtype"]), *x["data_offsets"]) for name, x in header.items()}
        tensors = {name: Stored(file, t, begin + a, b - a) for name, (t, a, b) in places.items()}
        end = begin
        for tensor in sorted(tensors.values(), key=lambda t: (t.begin, t.size)):
            if type(tensor.size) is not int or tensor.size < 0 or tensor.begin != end:
                raise ValueError(f"the bytes from {end} on are of no tensor, or of several")
            end += tensor.size
        if end != size:
            raise ValueError(f"the tensors end at byte {end} of {size}")
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}; {DAMAGED}") from None
    except MALFORMED as error:
        why = shortened(str(error), 160)
        raise InputError(f"{file}: is not a whole .safetensors file: {why}; {DAMAGED}") from None
    return tensors


def mapped(index: Path) -> dict[str, Path]:
    """The file of each tensor in an index."""
    try:
        names = json.loads(index.read_bytes())["weight_map"]
        return {tensor: (index.parent / name).resolve() for tensor, name in names.items()}
    except OSError as error:
        raise InputError(f"{index}: cannot be read: {error.strerror}; {DAMAGED}") from None
    except MALFORMED:
        raise InputError(f"{index}: is not the index of a checkpoint; download it again") from None


class Weight:
    """An NF4 weight, and what the file has to compare it with."""

    def __init__(self, name: str, tensors: dict[str, Stored]):
        self.name, self.tensors, self.claimed = name, tensors, {f"{name}{STATE}"}
        self.stored = tensors[f"{name}{STATE}"]
        try:
            state = json.loads(self.stored.read(np.uint8).tobytes())
            self.shape = [*map(int, state["shape"])]
            self.block_size, self.output = int(state["blocksize"]), state["dtype"]
            self.nested_block_size = int(state.get("nested_blocksize", 0))
            self.offset = np.float32(float(state["nested_offset"]) if self.nested_block_size else 0)
            known = state["quant_type"] == "nf4" and self.output in reference.TYPES
            is_negative = min(self.nested_block_size, *self.shape) < 0
            if not known or self.block_size not in BLOCK_SIZES or is_negative:
                raise ValueError("a type, size or block size is not one of bitsandbytes")
        except MALFORMED as error:
            self.refuse(f"has a quant_state that is wrong: {shortened(repr(error), 160)}")
        self.nested = self.nested_block_size > 0
        self.elements = math.prod(self.shape)
        blocks = -(-self.elements // self.block_size)
        self.parts = {
            "codes": self.part("", -(-self.elements // 2)),  # of any dtype
            "absmax": self.part(".absmax", blocks if self.nested else 4 * blocks),
            "table": self.part(".quant_map", 4 * 16),
        }
        if self.nested:
            groups = -(-blocks // self.nested_block_size)
            self.parts["map"] = self.part(".nested_quant_map", 4 * 256)
            self.parts["absmax2"] = self.part(".nested_absmax", 4 * groups)
        self.dequantized, self.source = self.companion("dequantized"), self.companion("source")

    def refuse(self, fault: str):
        where = f"{self.stored.file}: tensor '{shortened(self.name, 120)}'"
        raise InputError(f"{where} {fault}; {SAVE_AGAIN}") from None

    def part(self, suffix: str, size: int) -> Stored:
        part = self.tensors.get(self.name + suffix)
        what = f"'{suffix[1:]}'" if suffix else "its codes"
        if part is None:
            self.refuse(f"has a quant_state but lacks {what}")
        if part.size != size:
            self.refuse(f"has {part.size} bytes of {what}, but its quant_state calls for {size}")
        self.claimed.add(self.name + suffix)
        return part

    def companion(self, kind: str) -> Stored | None:
        """What a file of golden vectors has beside the weight, in its output type."""
        name = f"{self.name.removesuffix('.weight')}.{kind}"
        if name in self.tensors and self.tensors[name].size != 2 * self.elements:
            self.refuse(f"has a '{kind}' of another size")
        self.claimed.add(name)
        return self.tensors.get(name)


@dataclass(frozen=True)
class Checkpoint:
    files: list[Path]
    not_read: list[str]  # further files beside them
    weights: list[Weight]  # with 16-bit outputs
    others: Counter[str]  # tensors of other kinds, in the order in which they are reported


def in_folder(folder: Path) -> list[Path]:
    """The .safetensors files by name, without leftovers of other systems."""
    return sorted(file for file in folder.glob("*.safetensors") if not file.name.startswith("."))


def read(given: list[Path]) -> Checkpoint:
    """Of a folder with a single file and an index, transformers loads the single file."""
    files: list[Path] = []
    beside: list[Path] = []
    indexed: dict[str, Path] = {}
    for path in given:
        index = path / INDEX if path.is_dir() else path
        if path.is_dir() and (path / SINGLE).exists() and index.exists():
            here = [path / SINGLE]
        elif index.suffix == ".json" and (index.exists() or not path.is_dir()):
            indexed |= mapped(index)
            here = [*indexed.values(), index]
        else:
            here = in_folder(path) if path.is_dir() else [path]
        if not here:
            raise InputError(f"{path}: has no .safetensors file; give the folder of a checkpoint")
        files += here
        beside += [*in_folder(index.parent), index] if index.suffix == ".json" else []
    places = {file.resolve() for file in files}
    not_read = [f.name for f in dict.fromkeys(beside) if f.resolve() not in places and f.exists()]
    files = sorted({file.resolve(): file for file in files if file.suffix != ".json"}.values())
    tensors: dict[str, Stored] = {}
    for file in files:
        found = stored_in(file)
        if twice := found.keys() & tensors.keys():
            what = f"tensor '{min(twice)}' is also in {tensors[min(twice)].file}"
            raise InputError(f"{file}: {what}; give the files of one checkpoint alone")
        tensors |= found
    if absent := indexed.keys() - tensors.keys():
        name = min(absent)
        raise InputError(f"{indexed[name]}: lacks tensor '{name}' of the index; {DAMAGED}")
    return sorted_out(given[0], files, not_read, tensors)


def sorted_out(
    given: Path, files: list[Path], not_read: list[str], tensors: dict[str, Stored]
) -> Checkpoint:
    """The weights, and the tensors of other kinds."""
    claimed: set[str] = set()
    weights, others = [], Counter[str]()
    for name in sorted(tensors):
        if name.endswith(STATE):
            weight = Weight(name.removesuffix(STATE), tensors)
            claimed |= weight.claimed
            if weight.output == "float32":
                others["NF4 with fp32 outputs"] += 1
            else:
                weights.append(weight)
    plain = Counter(tensor.dtype for name, tensor in tensors.items() if name not in claimed)
    others.update(dict(sorted(plain.items())))
    if not weights:
        what = "no NF4 weight of bitsandbytes with fp16 or bf16 outputs, only "
        what += counted(others) if others else "nothing"
        raise InputError(f"{given}: {what}; give a whole bnb-4bit checkpoint")
    return Checkpoint(files, not_read, sorted(weights, key=lambda w: w.name), others)


def counted(kinds: Counter[str]) -> str:
    """'2 tensors of U8, 5 of BF16'"""
    (first, count), *rest = kinds.items()
    return ", ".join([f"{plural(count)} of {first}", *(f"{n} of {kind}" for kind, n in rest)])


def plural(count: int) -> str:
    return f"{count} tensor{'s' * (count != 1)}"


class Loaded:
    """A weight and the reference's outputs, in memory that the kernels' process shares."""

    def __init__(self, weight: Weight, memory: mmap.mmap):
        self.weight, self.shared = weight, reference.SharedWeight.from_buffer(memory)
        self.bytes, self.end = np.frombuffer(memory, np.uint8), ctypes.sizeof(self.shared)
        types = {"codes": np.uint8, "absmax": np.uint8 if weight.nested else np.float32}
        arrays = {n: part.read(types.get(n, np.float32)) for n, part in weight.parts.items()}
        arrays["shape"] = np.array(weight.shape, np.int64)
        self.shared.weight = reference.Weight(
            block_size2=weight.nested_block_size,
            offset=float(weight.offset),
            block_size=weight.block_size,
            type=reference.TYPES[weight.output],
        )
        in_c = self.shared.weight
        for name, values in arrays.items():
            setattr(in_c, name, reference.array(self.placed(values)))
        outputs = np.empty(weight.elements, np.uint16)
        self.expected, self.actual = self.placed(outputs), self.placed(outputs)
        self.shared.expected = reference.array(self.expected)
        self.shared.actual = reference.array(self.actual)
        reference.write_weights(in_c, self.expected)

    def placed(self, values: np.ndarray) -> np.ndarray:
        """A copy in the memory."""
        begin = -(-self.end // 256) * 256
        self.end = begin + values.nbytes
        copy = self.bytes[begin : self.end].view(values.dtype)
        copy[:] = values
        return copy


Note = tuple[str, str, str]  # a subject, the outcome, and why in one line


class Kernels:
    """The kernels of this build, run by libreprolab_kernels.so (harness/nf4/kernels_library.cpp) in
    a process of its own, which shares the memory of a weight with this one.
    """

    def __init__(self, pattern: str, peers: list[str], memory: mmap.mmap):
        self.names: list[str] = []
        self.unavailable, file = "", reference.BIN / "libreprolab_kernels.so"
        if not file.exists():
            if pattern or peers:
                what = "need kernels, and this build has no CUDA; build it with the preset gpu"
                raise InputError(f"--kernel and --peer {what}")
            self.unavailable = "built without CUDA"
            return
        self.functions = ctypes.CDLL(str(file))
        for name in ("open", "verify"):
            getattr(self.functions, f"reprolab_kernels_{name}").restype = ctypes.c_char_p
        request = json.dumps({"pattern": pattern, "peers": peers}).encode()
        shared = reference.SharedWeight.from_buffer(memory)
        opened = self.ask("open", request, ctypes.byref(shared))
        self.names, self.unavailable = opened["names"], opened["unavailable"]

    def ask(self, function: str, *arguments: Any) -> dict[str, Any]:
        answer = json.loads(getattr(self.functions, f"reprolab_kernels_{function}")(*arguments))
        if why := answer.get("usage"):
            raise InputError(why)
        return answer

    def notes(self, loaded: Loaded, number: int) -> Iterator[tuple[Note, np.ndarray | None]]:
        """The kernels' notes, each with the output that is wrong, if it is known."""
        for kernel in self.names:
            answer = self.ask("verify", loaded.weight.name.encode(), number, kernel.encode())
            note = (kernel, answer["outcome"], answer["reason"])
            yield note, loaded.actual if answer["differs"] else None


def checked(loaded: Loaded, kernels: Kernels, number: int, dumps: Path | None) -> list[Note]:
    """The notes on a weight; writes what differs to the folder."""
    weight, notes = loaded.weight, []
    if weight.dequantized:
        stored = weight.dequantized.read(np.uint16)
        why = reference.mismatch(loaded.shared.weight, stored, loaded.expected)
        notes.append(("reference", "mismatch" if why else EQUAL, why))
        if why and dumps:
            dump(dumps, weight, "reference", expected=stored, actual=loaded.expected)
    else:
        why = "the file holds no .dequantized to compare with"
        notes.append(("reference", "not_verified", why))
    if weight.source:
        why = reference.quantizer_check(loaded.shared.weight, weight.source.read(np.uint16))
        notes.append(("quantizer", "mismatch" if why else EQUAL, why))
    for note, actual in kernels.notes(loaded, number):
        notes.append(note)
        if actual is not None and dumps:
            dump(dumps, weight, note[0], expected=loaded.expected, actual=actual)
    return notes


def dump(folder: Path, weight: Weight, subject: str, **sides: np.ndarray) -> None:
    """Both sides as .npy; NumPy has no bf16, so its bits are uint16."""
    for side, bits in sides.items():
        values = bits.view(np.float16 if weight.output == "float16" else np.uint16)
        name = quote(f"{weight.name}.{subject}.{side}.npy", safe="")
        content = io.BytesIO()
        np.save(content, values.reshape(weight.shape))
        write_files({folder / name: content.getvalue()})


def show(weight: Weight, notes: list[Note], brief: bool) -> None:
    told = [note for note in notes if note[1] in SHOWN]
    if told or not brief:
        kind = {"float16": "fp16", "bfloat16": "bf16"}[weight.output]
        nested = ", nested scales" * weight.nested
        shape = ", ".join(map(str, weight.shape))
        name = printable(weight.name)
        print(f"{name}: [{shape}] {kind}, blocks of {weight.block_size}{nested}", flush=True)
    for subject, outcome, reason in told:
        print(f"  {printable(subject)}: {outcome}: {printable(reason)}", flush=True)


def summary(notes: list[list[Note]], found: Checkpoint) -> int:
    """Prints how many tensors were compared, and with what; the exit status."""
    print("summary, in tensors:")
    reasons: dict[str, dict[str, list[str]]] = {}
    compared = Counter[str]()
    for one in notes:
        for subject, outcome, reason in one:
            reasons.setdefault(subject, {}).setdefault(outcome, []).append(reason)
        compares = [s for s, outcome, _ in one if outcome not in (*NOT_COMPARED, "launch_failed")]
        compared.update({SUBJECTS.get(subject, "kernels") for subject in compares})
        compared["all"] += bool(compares)
    width = max(len(printable(subject)) for subject in reasons)
    for subject, of_it in reasons.items():
        parts = [f"  {printable(subject):<{width}}"]
        for outcome in (outcome for outcome in OUTCOMES if outcome in of_it):
            reason = of_it[outcome][0] if outcome not in WRONG else ""
            count = f"{outcome} {len(of_it[outcome])}"
            parts.append(count + f" ({printable(reason)})" * bool(reason))
        print("  ".join(parts))
    withs = [f"{compared[w]} with {w}" for w in (*SUBJECTS.values(), "kernels") if compared[w]]
    total = plural(len(notes) + found.others.total())
    print(f"checked: {compared['all']} of {total}" + f": {', '.join(withs)}" * bool(withs))
    if unproved := len(notes) - compared["all"]:
        print(
            f"not checked: {plural(unproved)} of NF4, dequantized by the reference with "
            "nothing to compare with, which proves nothing"
        )
    if found.others:
        print(f"not checked: {printable(counted(found.others))}")
    outcomes = {outcome for of_it in reasons.values() for outcome in of_it}
    if outcomes & {*WRONG}:
        return WRONG_OUTPUT
    if not compared["all"]:
        print(NOTHING)
    return NOT_MEASURED if "not_measured" in outcomes or not compared["all"] else 0


def verify(args: argparse.Namespace) -> int:
    found = read(args.files)
    if args.list:
        keys = ("name", "shape", "block_size", "nested", "output")
        print(json.dumps([{key: getattr(w, key) for key in keys} for w in found.weights]))
        return 0
    if args.dump and not args.dump.is_dir():
        raise InputError(f"--dump: {args.dump} is not a folder")
    reference.self_test()
    for weight in found.weights:
        if not reference.is_nf4(weight.parts["table"].read(np.float32)):
            weight.refuse("has a 'quant_map' that is not that of NF4")
    most = max(weight.elements for weight in found.weights)
    memory = mmap.mmap(-1, 9 * most + (1 << 20))  # of which a weight takes what it needs
    kernels = Kernels(args.kernel, args.peer, memory)
    more = f" and {len(args.files) - 1} more" * (len(args.files) > 1)
    where = f" in {len(found.files)} files" * (len(found.files) > 1)
    name = printable(f"{args.files[0]}{more}")
    print(f"{name}: {len(found.weights)} quantized tensors{where}")
    if found.not_read:
        print(f"not read, though beside it: {printable(', '.join(found.not_read))}")
    if kernels.unavailable:
        print(f"kernels: none run ({printable(kernels.unavailable)})")
    if args.dry_run:
        weights = sum(weight.elements for weight in found.weights) / 1e6
        memory = f"about {BYTES_PER_WEIGHT * most / 1e9:.1f} GB of memory"
        print(
            f"to check: {plural(len(found.weights))} with {weights:.4g} million weights; {memory}"
        )
        if kernels.names:
            print(f"with: {', '.join(kernels.names)}")
        return 0
    notes = []
    for number, weight in enumerate(found.weights):
        notes.append(checked(Loaded(weight, memory), kernels, number, args.dump))
        show(weight, notes[-1], args.brief)
    return summary(notes, found)


if __name__ == "__main__":
    raise SystemExit(run(parser()))
