"""`make verify`: dequantizes every NF4 weight of a bitsandbytes checkpoint by the reference, and
compares it bit for bit with the outputs in the file and with every kernel of this build.

Exit status: 0 all equal, or different as declared; 1 an output is wrong; 2 wrong usage or a file
that cannot be read; 3 a kernel was not measured, or there was nothing to compare with.
"""

import argparse
import ctypes
import hashlib
import json
import mmap
import re
import struct
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from reprolab import checkpoint, reference
from reprolab.command_line import Parser, run
from reprolab.errors import NOT_MEASURED, WRONG_OUTPUT, InputError
from reprolab.printable import printable

# In the order of a summary.
EQUAL, DECLARED = ("bit_exact", "within_bound", "deviation_as_declared")[::2]
OUTCOMES = (EQUAL, "within_bound", DECLARED, "mismatch", "launch_failed", "unsupported")
OUTCOMES += ("not_measured", "not_verified")
WRONG, NOT_COMPARED = ("mismatch", "launch_failed"), ("unsupported", "not_measured", "not_verified")
SHOWN = (*WRONG, "not_measured")
SUBJECTS = {"reference": "stored outputs", "quantizer": "what was quantized"}  # and kernels
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


class Loaded:
    """A weight with its arrays in memory, and the reference's outputs."""

    def __init__(self, weight: checkpoint.Weight):
        nested = np.empty(0, np.float32)
        self.weight = weight
        self.arrays = {
            "codes": weight.codes.read(),
            "absmax": weight.absmax.read(np.uint8 if weight.nested else np.float32),
            "map": weight.nested_map.read(np.float32) if weight.nested_map else nested,
            "absmax2": weight.nested_absmax.read(np.float32) if weight.nested_absmax else nested,
            "table": weight.table.read(np.float32),
            "shape": np.array(weight.shape, np.int64),
        }
        self.numbers = {
            "block_size2": weight.nested_block_size,
            "offset": weight.offset,
            "block_size": weight.block_size,
            "type": reference.TYPES[weight.output],
        }
        arrays = {name: reference.array(values) for name, values in self.arrays.items()}
        self.in_c = reference.Weight(**arrays, **self.numbers)
        self.expected = np.empty(weight.elements, np.uint16)
        reference.write_weights(self.in_c, self.expected)


Note = tuple[str, str, str]  # a subject, the outcome, and why in one line


class Kernels:
    """The kernels of this build, run by libreprolab_kernels.so (harness/nf4/kernels_library.cpp) in
    a process of its own, which shares the memory of a weight with this one.
    """

    def __init__(self, pattern: str, peers: list[str], most: checkpoint.Weight | None):
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
        elements = most.elements if most else 0
        self.memory = np.frombuffer(mmap.mmap(-1, 9 * elements + (1 << 20)), np.uint8)
        opened = self.ask(
            "open", {"pattern": pattern, "peers": peers}, reference.array(self.memory)
        )
        self.names, self.unavailable = opened["names"], opened["unavailable"]

    def ask(self, function: str, request: dict[str, Any], *more: Any) -> dict[str, Any]:
        call = getattr(self.functions, f"reprolab_kernels_{function}")
        answer = json.loads(call(json.dumps(request).encode(), *more))
        if why := answer.get("usage"):
            raise InputError(why)
        return answer

    def place(self, loaded: Loaded) -> dict[str, Any]:
        """Copies the weight and its outputs to the shared memory; where they are."""
        at, places = 0, {}
        outputs = {"expected": loaded.expected, "actual": np.empty_like(loaded.expected)}
        for name, values in (loaded.arrays | outputs).items():
            data = values.view(np.uint8)
            self.memory[at : at + data.size] = data
            places[name] = [at, values.size]
            at += -(-data.size // 256) * 256
        numbers = loaded.numbers | {
            "offset": struct.unpack("I", struct.pack("f", loaded.weight.offset))[0]
        }
        return {"name": loaded.weight.name, "places": places, "numbers": numbers}

    def notes(self, loaded: Loaded, number: int):
        """The kernels' notes, each with the output that is wrong, if it is known."""
        request = self.place(loaded) | {"number": number} if self.names else {}
        for kernel in self.names:
            answer = self.ask("verify", request, kernel.encode())
            begin, count = request["places"]["actual"]
            actual = self.memory[begin : begin + 2 * count].view(np.uint16)
            yield (
                (kernel, answer["outcome"], answer["reason"]),
                actual if answer["differs"] else None,
            )


def checked(loaded: Loaded, kernels: Kernels, number: int):
    """The notes on a weight, each with the two outputs that differ, if they are known."""
    weight = loaded.weight
    if weight.dequantized is None:
        why = "the file holds no .dequantized to compare with"
        yield ("reference", "not_verified", why), None, None
    else:
        stored = weight.dequantized.read(np.uint16)
        why = reference.mismatch(loaded.in_c, stored, loaded.expected)
        note = ("reference", "mismatch" if why else EQUAL, why)
        yield note, *((stored, loaded.expected) if why else (None, None))
    if weight.source:
        wrong, why = reference.quantizer_check(loaded.in_c, weight.source.read(np.uint16))
        yield ("quantizer", "mismatch" if wrong else DECLARED if why else EQUAL, why), None, None
    for note, actual in kernels.notes(loaded, number):
        yield note, *((loaded.expected, actual) if actual is not None else (None, None))


def dump(folder: Path, weight: checkpoint.Weight, subject: str, **sides: np.ndarray) -> None:
    """Both sides as .npy; NumPy has no bf16, so its bits are uint16. Names that are no file names
    are escaped, with a hash, so that no two share a file."""
    name = f"{weight.name}.{subject}"
    stem = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    if stem != name or len(stem) > 200:
        stem = f"{stem[:180]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    for side, bits in sides.items():
        values = bits.view(np.float16 if weight.output == "float16" else np.uint16)
        with suppress(ValueError):  # of more dimensions than NumPy has
            values = values.reshape(weight.shape)
        try:
            np.save(folder / f"{stem}.{side}.npy", values)
        except OSError as error:  # the mismatch itself fails the run
            place = printable(str(error.filename or folder))
            print(f"verify: --dump: {place}: {error.strerror}", file=sys.stderr)


def plan(found: checkpoint.Checkpoint, kernels: Kernels) -> int:
    sizes = [weight.elements for weight in found.weights]
    memory = f"about {BYTES_PER_WEIGHT * max(sizes) / 1e9:.1f} GB of memory"
    print(f"to check: {len(sizes)} tensors with {sum(sizes) / 1e6:.4g} million weights; {memory}")
    if found.others:
        print(f"not to check: {printable(checkpoint.counted(found.others))}")
    if kernels.names:
        print(f"with: {', '.join(kernels.names)}")
    return 0


def summary(notes: list[list[Note]], found: checkpoint.Checkpoint) -> int:
    print("summary, in tensors:")
    counts: dict[str, Counter[str]] = {}
    why: dict[tuple[str, str], str] = {}
    for subject, outcome, reason in (note for one in notes for note in one):
        counts.setdefault(subject, Counter())[outcome] += 1
        why.setdefault((subject, outcome), reason)
    width = max(len(printable(subject)) for subject in counts)
    for subject, of_it in counts.items():
        parts = [f"  {printable(subject):<{width}}"]
        for outcome in (outcome for outcome in OUTCOMES if of_it[outcome]):
            reason = why[subject, outcome] if outcome not in WRONG else ""
            parts.append(f"{outcome} {of_it[outcome]}" + f" ({printable(reason)})" * bool(reason))
        print("  ".join(parts))
    return coverage(notes, found)


def coverage(notes: list[list[Note]], found: checkpoint.Checkpoint) -> int:
    """How many tensors were compared, and with what; the exit status."""
    compared = Counter[str]()
    proved = 0
    for one in notes:
        what = {
            s: SUBJECTS.get(s, "kernels")
            for s, outcome, _ in one
            if outcome not in (*NOT_COMPARED, "launch_failed")
        }
        compared.update(set(what.values()))
        proved += bool(what)
    total = len(notes) + found.others.total()
    withs = [f"{compared[w]} with {w}" for w in (*SUBJECTS.values(), "kernels") if compared[w]]
    print(f"checked: {proved} of {plural(total)}" + f": {', '.join(withs)}" * bool(withs))
    if proved < len(notes):
        print(
            f"not checked: {plural(len(notes) - proved)} of NF4, dequantized by the reference with "
            "nothing to compare with, which proves nothing"
        )
    if found.others:
        print(f"not checked: {printable(checkpoint.counted(found.others))}")
    outcomes = {outcome for one in notes for _, outcome, _ in one}
    if outcomes & {*WRONG}:
        return WRONG_OUTPUT
    return NOT_MEASURED if "not_measured" in outcomes or not proved else 0


def plural(count: int) -> str:
    return f"{count} tensor{'s' * (count != 1)}"


def verify(args: argparse.Namespace) -> int:
    found = checkpoint.read(args.files)
    if args.list:
        print(
            json.dumps(
                [
                    {
                        "name": printable(w.name),
                        "shape": w.shape,
                        "block_size": w.block_size,
                        "nested": w.nested,
                        "output": w.output,
                    }
                    for w in found.weights
                ]
            )
        )
        return 0
    reference.self_test()
    for weight in found.weights:
        if not reference.is_nf4(weight.table.read(np.float32)):
            what = f"tensor '{weight.name}' has a 'quant_map' that is not that of NF4"
            raise InputError(f"{weight.table.file}: {what}; {checkpoint.SAVE_AGAIN}")
    largest = max(found.weights, key=lambda weight: weight.elements)
    kernels = Kernels(args.kernel, args.peer, largest)
    compares = kernels.names or any(w.dequantized or w.source for w in found.weights)
    if not compares:
        print(NOTHING)
    name = printable(checkpoint.described(args.files))
    where = f" in {len(found.files)} files" * (len(found.files) > 1)
    print(f"{name}: {len(found.weights)} quantized tensors{where}")
    if found.not_read:
        print(f"not read, though beside it: {printable(', '.join(found.not_read))}")
    if kernels.unavailable:
        print(f"kernels: none run ({printable(kernels.unavailable)})")
    if args.dry_run:
        return plan(found, kernels)
    notes: list[list[Note]] = []
    for number, weight in enumerate(found.weights):
        loaded = Loaded(weight)
        notes.append([])
        for note, expected, actual in checked(loaded, kernels, number):
            notes[-1].append(note)
            if args.dump and actual is not None:
                dump(args.dump, weight, note[0], expected=expected, actual=actual)
        show(weight, notes[-1], args.brief)
    proves = any(outcome not in NOT_COMPARED for one in notes for _, outcome, _ in one)
    if compares and not proves:
        print(NOTHING)
    return summary(notes, found)


def show(weight: checkpoint.Weight, notes: list[Note], brief: bool) -> None:
    told = [note for note in notes if note[1] in SHOWN]
    if told or not brief:
        kind = {"float16": "fp16", "bfloat16": "bf16"}[weight.output]
        nested = ", nested scales" * weight.nested
        shape = ", ".join(map(str, weight.shape))
        name = printable(weight.name)
        print(f"{name}: [{shape}] {kind}, blocks of {weight.block_size}{nested}", flush=True)
    for subject, outcome, reason in told:
        print(f"  {printable(subject)}: {outcome}: {printable(reason)}", flush=True)


if __name__ == "__main__":
    raise SystemExit(run(parser()))
