"""libreprolab_nf4.so through ctypes, and its header. Needs no GPU."""

import ctypes
import re
import subprocess
import sys
import types
from collections import Counter
from pathlib import Path

import pytest
from sass import tools

import reprolab_nf4
from reprolab.errors import InputError
from reprolab_nf4 import DropinError, c_functions

HEADER = Path(reprolab_nf4.__file__).parents[1] / "reprolab_nf4/csrc/reprolab_nf4.h"


@pytest.fixture
def library(built_library):
    return reprolab_nf4.Library(built_library)


@pytest.mark.parametrize("language", [("c", "c99"), ("c++", "c++11")])
def test_the_header_is_c_and_cpp(language):
    options = ["-x", language[0], f"-std={language[1]}", "-Wall", "-Wextra", "-Werror"]
    command = ["g++", "-fsyntax-only", *options, "-"]
    subprocess.run(command, input=f'#include "{HEADER}"\n', text=True, check=True)


def test_the_functions_have_the_parameters_of_the_header():
    """Names, order and C types of the parameters."""
    types = {"int": c_functions.INT, "int64_t": c_functions.INT64}
    types |= {"float": ctypes.c_float, "const char*": c_functions.Text}
    declared = {}
    for name, text in re.findall(r"^int (\w+)\(([^)]+)\);", HEADER.read_text(), re.MULTILINE):
        parameters = [re.fullmatch(r"(.*?)(\w+)", p.strip()).groups() for p in text.split(",")]
        kinds = [(p, types.get(kind.strip(), c_functions.ADDRESS)) for kind, p in parameters]
        declared[name] = kinds
    del declared["reprolab_nf4_use"]
    wanted = dict.fromkeys(c_functions.REPLACED, c_functions.PLAIN_PARAMETERS) | c_functions.OURS
    assert declared == {name: list(parameters.items()) for name, parameters in wanted.items()}


def test_it_exports_the_headers_functions_and_nothing_else(built_library):
    listed = tools.output_of(["nm", "-D", "--defined-only", built_library])
    declared = re.findall(r"^(?:int|const char\*) (\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert sorted(line.split()[-1] for line in listed.splitlines()) == sorted(declared)


def test_it_needs_only_the_c_library_and_the_compilers(built_library):
    """Everything else, the driver too, is linked statically or loaded on demand."""
    listed = tools.output_of(["readelf", "--dynamic", "--wide", built_library])
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", listed)
    of_these = r"(lib(c|m|dl|rt|pthread|gcc_s)|ld-linux[-\w]*)\.so\.\d"
    assert "libc.so.6" in needed
    assert [name for name in needed if not re.fullmatch(of_these, name)] == []


def held(library: Path, kind: str) -> Counter:
    """How many files of machine code ("elf") or PTX the library has of each architecture."""
    try:
        program = tools.program("cuobjdump")
    except InputError as missing:
        pytest.skip(f"NOT TESTED, {missing}")
    listed = tools.output_of([program, f"--list-{kind}", library])
    # A library holds a file for 9.0 or for its own instructions (9.0a), not for both.
    return Counter(re.findall(r"\.sm_(\d+)a?\.\w+$", listed, re.MULTILINE))


def test_it_holds_what_it_was_built_for(built_library):
    """Every kernel's file in machine code of each architecture, and in PTX of the last."""
    nvcc, architectures = reprolab_nf4.Library(built_library).built()
    assert re.fullmatch(r"\d+\.\d+\.\d+", nvcc)
    named = [name.partition("-") for name in architectures.split(",")]
    codes, ptx = held(built_library, "elf"), held(built_library, "ptx")
    assert sorted(codes) == sorted(number for number, _, kind in named if kind != "virtual")
    assert sorted(ptx) == sorted(number for number, _, kind in named if kind != "real")
    assert len({*codes.values(), *ptx.values()}) == 1


# Valid arguments, and values that are no number, no address, or have more than 32 or 64 bits.
SOUND = {c_functions.ADDRESS: 0, c_functions.INT: 64, c_functions.INT64: 0}
SOUND |= {ctypes.c_float: 0.5, c_functions.Text: "simple"}
NO_NUMBERS = [1.5, "1", b"1", True, [1], 10**5000, object]
WRONG = {
    c_functions.ADDRESS: [2**64, 2**64 + 4096, -1, *NO_NUMBERS],
    c_functions.INT: [2**31, 2**32, 2**32 + 64, -(2**31) - 1, 2**64, None, *NO_NUMBERS],
    c_functions.INT64: [2**63, -(2**63) - 1, 2**64, None, *NO_NUMBERS],
    c_functions.Text: [5, b"simple", "sim\0ple", "sim\ud800ple", None],
}
WANTED = {
    c_functions.ADDRESS: "an address, such as tensor.data_ptr()",
    c_functions.INT: "a whole number of 32 bits",
    c_functions.INT64: "a whole number of 64 bits",
    c_functions.Text: "a kernel's name",
}
CALLED = {
    c_functions.REPLACED[0]: c_functions.PLAIN_PARAMETERS | {"code": c_functions.ADDRESS},
    c_functions.NESTED[0]: c_functions.NESTED_PARAMETERS,
    c_functions.MULTIPLY[0]: c_functions.MULTIPLY_PARAMETERS,
}


@pytest.mark.parametrize("name", CALLED)
def test_a_wrong_parameter_is_one_line_and_is_never_truncated(library, name):
    call, good = getattr(library, name), {p: SOUND[kind] for p, kind in CALLED[name].items()}
    del good["stream"]
    good["n"] = 0
    call(*good.values())
    call(**good)
    call(**good | {"A": 2**64 - 1})
    with pytest.raises(DropinError, match=f"stream: .* not {2**64}$"):
        call(**good, stream=types.SimpleNamespace(_as_parameter_=2**64))
    for parameter in good.keys() - {"offset"}:
        kind = CALLED[name][parameter]
        for value in WRONG[kind]:
            is_simple = value is not object and value != 10**5000
            shown = repr(value) if is_simple else f"a value of type {type(value).__name__}"
            shown = shown.replace("\0", "\\x00")
            with pytest.raises(DropinError, match=f"^{name}: {parameter}: ") as error:
                call(**good | {parameter: value})
            assert str(error.value).endswith(f" {WANTED[kind]}, not {shown}")


def test_offsets_and_missing_arguments_are_one_line_too(library):
    """With the message of this Python's ctypes."""
    name = c_functions.NESTED[0]
    call, good = getattr(library, name), {p: SOUND[kind] for p, kind in CALLED[name].items()}
    with pytest.raises(DropinError, match=f"^{name}: offset: "):
        call(**good | {"offset": "1"})
    with pytest.raises(DropinError, match=f"^{name}: .*'absmax_codes'"):
        call(A=0)


@pytest.mark.parametrize("type", ["fp16", "bf16"])
def test_products_refuse_numbers_before_they_read_pointers(library, type):
    good = {p: SOUND[kind] for p, kind in c_functions.MULTIPLY_PARAMETERS.items()}
    good |= {"kernel": b"simple", "k": 7}
    library.multiply[type](*good.values())
    with pytest.raises(DropinError, match=f"reprolab_nf4_multiply_{type}: m is -1"):
        library.multiply[type](*(good | {"m": -1}).values())


PLAN = {"kernel": "few_rows", "B": 0x100, "absmax": 0x100, "absmax_codes": None, "code2": None}
PLAN |= {"offset": 0.0, "bias": None, "m": 1, "n": 64, "k": 64, "blocksize": 64, "blocksize2": 0}


@pytest.mark.parametrize("type", ["fp16", "bf16"])
@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        *[("kernel", "none", "none"), ("B", None, "B"), ("absmax", 3, "absmax"), ("m", 0, "m")],
        *[("n", -1, "n"), ("blocksize", 33, "blocksize"), ("bias", 1, "bias")],
    ],
)
def test_a_plan_refuses_wrong_arguments(type, name, value, wrong, library):
    given = PLAN | {name: value}
    with pytest.raises(DropinError, match=rf"^reprolab_nf4_plan_{type}: .*\b{wrong}\b"):
        library.plan(type, *given.values())


def test_a_plan_without_a_gpu_is_an_error(built_library):
    """In a process without visible GPUs."""
    call = f"reprolab_nf4.Library({str(built_library)!r}).plan('fp16', *{[*PLAN.values()]!r})"
    program = f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''; import reprolab_nf4; {call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "DropinError" in done.stderr.splitlines()[-1]


def test_forgetting_a_null_plan_succeeds(library):
    library.reprolab_nf4_forget(None)
