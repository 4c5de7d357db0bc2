"""libreprolab_nf4.so through ctypes, and its header. Needs no GPU."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from claims.errors import InputError
from dropin import dropin
from sass import tools

HEADER = Path(dropin.__file__).with_name("reprolab_nf4.h")


@pytest.fixture
def library(built_library):
    return dropin.Library(built_library)


@pytest.mark.parametrize("language", [("c", "c99"), ("c++", "c++11")])
def test_the_header_is_c_and_cpp(language):
    options = ["-x", language[0], f"-std={language[1]}", "-Wall", "-Wextra", "-Werror"]
    command = ["g++", "-fsyntax-only", *options, "-"]
    subprocess.run(command, input=f'#include "{HEADER}"\n', text=True, check=True)


def test_the_functions_take_what_the_header_says():
    """Names, order and C types of the parameters."""
    types = {"int": dropin.INT, "float": dropin.ctypes.c_float, "int64_t": dropin.ctypes.c_int64}
    found = {}
    for name, text in re.findall(r"^int (\w+)\(([^)]+)\);", HEADER.read_text(), re.MULTILINE):
        parameters = [re.fullmatch(r"(.*?)(\w+)", p.strip()).groups() for p in text.split(",")]
        found[name] = {
            parameter: dropin.ADDRESS if "*" in kind else types[kind.strip()]
            for kind, parameter in parameters
        }
    del found["reprolab_nf4_use"]
    wanted = dict.fromkeys(dropin.REPLACED, dropin.PLAIN_PARAMETERS)
    wanted |= dict.fromkeys(dropin.NESTED, dropin.NESTED_PARAMETERS)
    assert {name: list(p.items()) for name, p in found.items()} == {
        name: list(p.items()) for name, p in wanted.items()
    }


def held(library: Path, kind: str) -> Counter:
    """How many files of machine code ("elf") or PTX the library has of each architecture."""
    try:
        program = tools.cuobjdump()
    except InputError as missing:
        pytest.skip(f"NOT TESTED, {missing}")
    listed = tools.output_of([program, f"--list-{kind}", library])
    return Counter(re.findall(r"\.sm_(\d+)\.\w+$", listed, re.MULTILINE))


def test_it_holds_what_it_was_built_for(built_library):
    """Every kernel's file in machine code of each architecture, and in PTX of the last."""
    nvcc, architectures = dropin.Library(built_library).built()
    assert re.fullmatch(r"\d+\.\d+\.\d+", nvcc)
    named = [name.partition("-") for name in architectures.split(",")]
    codes, ptx = held(built_library, "elf"), held(built_library, "ptx")
    assert sorted(codes) == sorted(number for number, _, kind in named if kind != "virtual")
    assert sorted(ptx) == sorted(number for number, _, kind in named if kind != "real")
    assert len({*codes.values(), *ptx.values()}) == 1


def test_kernels_are_chosen_by_name(library):
    assert {"streaming", "shared_lut", "branch_tree"} <= set(library.kernels())
    for kernel in [*library.kernels(), None]:
        library.use(kernel)
    with pytest.raises(dropin.DropinError, match=r"'oak': there is none of that name"):
        library.use("oak")


@pytest.mark.parametrize("name", dropin.REPLACED)
def test_bad_arguments_of_the_plain_functions_are_exceptions(library, name):
    call = getattr(library, name)
    good = {"code": None, "A": 1 << 40, "absmax": 1 << 41, "out": 1 << 42}
    good |= {"blocksize": 64, "n": 100}
    faults = {
        "A": (None, "A is null"),
        "absmax": ((1 << 41) + 2, "absmax is no multiple of 4 bytes"),
        "out": ((1 << 42) + 1, "out is no multiple of 2 bytes"),
        "blocksize": (48, "blocksize is 48; give a power of two from 32 to 4096"),
        "n": (-1, "n is -1; give 0 or more"),
    }
    for parameter, (value, why) in faults.items():
        with pytest.raises(dropin.DropinError) as error:
            call(*(good | {parameter: value}).values())
        assert str(error.value) == f"{name}: {why}"
    call(*(good | {"n": 0}).values())


@pytest.mark.parametrize("name", dropin.NESTED)
def test_bad_arguments_of_the_nested_functions_are_exceptions(library, name):
    call = getattr(library, name)
    good = {"A": 1 << 40, "absmax_codes": 1 << 41, "code2": 1 << 42, "absmax2": 1 << 43}
    good |= {"offset": 0.5, "out": 1 << 44, "blocksize": 64, "blocksize2": 256, "n": 100}
    faults = {
        "absmax_codes": (None, "absmax_codes is null"),
        "code2": ((1 << 42) + 1, "code2 is no multiple of 4 bytes"),
        "absmax2": (None, "absmax2 is null"),
        "blocksize2": (0, "blocksize2 is 0; give a power of two from 32 to 4096"),
        "n": (-(1 << 40), "n is -1099511627776; give 0 or more"),
    }
    for parameter, (value, why) in faults.items():
        with pytest.raises(dropin.DropinError) as error:
            call(*(good | {parameter: value}).values())
        assert str(error.value) == f"{name}: {why}"
    call(*(good | {"n": 0}).values())


@pytest.mark.parametrize("size", ["blocksize", "n"])
@pytest.mark.parametrize("value", [2**31, 2**32 + 64, -(2**31) - 1])
def test_a_size_beyond_32_bits_is_never_cut(library, size, value):
    good = {"code": None, "A": 1 << 40, "absmax": 1 << 41, "out": 1 << 42}
    good |= {"blocksize": 64, "n": 0}
    with pytest.raises(dropin.ctypes.ArgumentError, match=f"{value} does not fit into 32 bits"):
        library.cdequantize_blockwise_fp16_nf4(*(good | {size: value}).values())
