"""libreprolab_nf4.so through ctypes, and its header. Needs no GPU."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reprolab_nf4
from reprolab_nf4 import DropinError, c_functions

HEADER = Path(reprolab_nf4.__file__).parent / "csrc/reprolab_nf4.h"


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
    types |= {"float": ctypes.c_float, "const char*": c_functions.TEXT}
    declared = {}
    for name, text in re.findall(r"^int (\w+)\(([^)]+)\);", HEADER.read_text(), re.MULTILINE):
        parameters = [re.fullmatch(r"(.*?)(\w+)", p.strip()).groups() for p in text.split(",")]
        kinds = [(p, types.get(kind.strip(), c_functions.ADDRESS)) for kind, p in parameters]
        declared[name] = kinds
    del declared["reprolab_nf4_use"]
    wanted = dict.fromkeys(c_functions.REPLACED, c_functions.PLAIN_PARAMETERS) | c_functions.OURS
    assert declared == {name: list(parameters.items()) for name, parameters in wanted.items()}


def listed(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_it_exports_the_headers_functions_and_nothing_else(built_library):
    names = [
        line.split()[-1]
        for line in listed("nm", "-D", "--defined-only", built_library).splitlines()
    ]
    declared = re.findall(r"^(?:int|const char\*) (\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert sorted(names) == sorted(declared)


GOOD = {"code": None, "A": 0x100, "B": 0x100, "absmax": 0x100, "absmax_codes": None}
GOOD |= {"code2": 0x100, "offset": 0.5, "bias": None, "out": 0x100, "m": 1, "n": 64, "k": 64}
GOOD |= {"kernel": b"few_rows", "is_bf16": 0, "blocksize": 64, "blocksize2": 256}
GOOD |= {"weights_ready": 0, "workspace": None, "stream": None}
FUNCTIONS = {
    "cdequantize_blockwise_bf16_nf4": c_functions.PLAIN_PARAMETERS,
    c_functions.MULTIPLY: c_functions.MULTIPLY_PARAMETERS,
    c_functions.PLAN: c_functions.PLAN_PARAMETERS,
}
WRONG = [("kernel", b"none"), ("m", -1), ("k", -1), ("n", -1), ("bias", 1), ("code2", None)]
WRONG += [(name, wrong) for name in ("A", "B", "absmax", "out") for wrong in (None, 3)]
WRONG += [(name, wrong) for name in ("blocksize", "blocksize2") for wrong in (0, 33, 8192)]


def call(library, name, **changed):
    places = {"plan": ctypes.byref(ctypes.c_void_p()), "bytes": ctypes.byref(ctypes.c_uint64())}
    given = GOOD | places | changed
    getattr(library, name)(*(given[parameter] for parameter in FUNCTIONS[name]))


@pytest.mark.parametrize(("parameter", "value"), WRONG)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments_are_refused_before_a_launch(name, parameter, value, library):
    can_be_odd = ("A", "B") if name.startswith("cdequantize") else ("B",)
    if parameter not in FUNCTIONS[name] or (value == 3 and parameter in can_be_odd):
        pytest.skip("is right")
    nested = {"absmax_codes": 0x100} if parameter in ("code2", "blocksize2") else {}
    with pytest.raises(DropinError, match=rf"^{name}: .*{parameter}"):
        call(library, name, **nested | {parameter: value})


def test_without_outputs_a_call_does_nothing(library):
    nothing = dict.fromkeys(("A", "B", "absmax", "out"))
    call(library, "cdequantize_blockwise_bf16_nf4", **nothing, n=0)
    call(library, c_functions.MULTIPLY, **nothing, kernel=b"simple", m=0)


def test_kernels_are_listed_and_others_are_not_chosen(library):
    assert "streaming" in library.kernels() and "shared_lut_algorithm1" not in library.kernels()
    exact = {"simple", "few_rows_exact", "many_rows_exact", "few_rows_exact_99kib"}
    assert set(library.exact_products()) == exact < set(library.products())
    for name in ("", "nothing", "packed_512_as_published", "shared_lut_algorithm1"):
        with pytest.raises(DropinError, match="choose one"):
            library.use(name)
    library.use(None)


def test_a_plan_without_a_gpu_is_an_error(built_library):
    """In a process without visible GPUs."""
    code = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''; import reprolab_nf4, test_library;"
    code += f"library = reprolab_nf4.Library({str(built_library)!r});"
    code += "test_library.call(library, test_library.c_functions.PLAN)"
    path = {"PYTHONPATH": f"{HEADER.parents[2]}:{Path(__file__).parent}"}
    command, environment = [sys.executable, "-c", code], os.environ | path
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "DropinError" in done.stderr.splitlines()[-1]
