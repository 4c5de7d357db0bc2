"""libreprolab_nf4.so through ctypes, and its header. Needs no GPU."""

import ctypes
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


def test_it_needs_only_the_c_library_and_the_compilers(built_library):
    """Everything else, the driver too, is linked statically or loaded on demand."""
    dynamic = listed("readelf", "--dynamic", "--wide", built_library)
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    of_these = r"(lib(c|m|dl|rt|pthread|gcc_s)|ld-linux[-\w]*)\.so\.\d"
    assert "libc.so.6" in needed
    assert [name for name in needed if not re.fullmatch(of_these, name)] == []


PLAN = {
    "kernel": "few_rows",
    "is_bf16": 0,
    "B": 0x100,
    "absmax": 0x100,
    "absmax_codes": None,
    "code2": None,
}
PLAN |= {"offset": 0.0, "bias": None, "m": 1, "n": 64, "k": 64, "blocksize": 64, "blocksize2": 0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kernel", "none"),
        ("B", None),
        ("absmax", 3),
        ("m", 0),
        ("n", -1),
        ("blocksize", 33),
        ("bias", 1),
    ],
)
def test_a_plan_refuses_wrong_arguments(name, value, library):
    wrong = value if name == "kernel" else name
    with pytest.raises(DropinError, match=rf"^reprolab_nf4_make_plan: .*\b{wrong}\b"):
        library.plan(*(PLAN | {name: value}).values())
    library.reprolab_nf4_forget(None)


def test_a_plan_without_a_gpu_is_an_error(built_library):
    """In a process without visible GPUs."""
    call = f"reprolab_nf4.Library({str(built_library)!r}).plan(*{[*PLAN.values()]!r})"
    program = f"import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''; import reprolab_nf4; {call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "DropinError" in done.stderr.splitlines()[-1]
