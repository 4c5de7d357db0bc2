"""Kernels checked on the CPU: correct ones, planted faults, and those that cannot be emulated."""

import subprocess
import sys
from pathlib import Path

import pytest
from check import PROGRAM, ROOT, library
from translate import translated

CHECK = Path(__file__).with_name("check.py")

needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason="needs make build PRESET=cpu")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def checked(file):
    return run(sys.executable, CHECK, file)


@pytest.fixture(scope="module")
def faulty():
    """The planted faults by family, compiled once."""
    return {
        family: library(ROOT / f"tests/kernels/{family}/faulty_kernels.cu")
        for family in ("nf4", "transpose")
    }


@needs_program
@pytest.mark.parametrize(
    ("file", "outputs"),
    [("nf4/packed_512_as_published", "deviation_as_declared"), ("transpose/tiled", "bit_exact")],
)
def test_a_right_kernel_passes_with_the_number_of_its_outputs(file, outputs):
    process = checked(ROOT / f"kernels/{file}.cu")
    assert (process.returncode, process.stderr) == (0, "")
    words = process.stdout.split()
    assert words[1] == f"{outputs}:"
    assert int(words[2]) > 1_000_000


@needs_program
@pytest.mark.parametrize(
    ("family", "kernel", "word"),
    [
        ("nf4", "test_wrong_entry", "code 5"),
        ("nf4", "test_swapped_nibbles", "differ"),
        ("nf4", "test_fused_multiply_add", "1 ULP"),
        ("nf4", "test_missing_tail", "0xffff"),
        ("nf4", "test_writes_past_end", "outside"),
        ("nf4", "test_too_many_threads", "error 9"),
        ("nf4", "test_undeclared_deviation", "0xffff"),
        ("nf4", "test_does_not_deviate", "differ"),
        ("transpose", "test_swaps_two", "differ"),
        ("transpose", "test_skips_last_column", "differ"),
        ("transpose", "test_skips_tile", "differ"),
        ("transpose", "test_adds_zero", "-0"),
        ("transpose", "test_writes_to_gap", "outside"),
        ("transpose", "test_writes_past_end", "outside"),
        ("transpose", "test_writes_before", "outside"),
    ],
)
def test_a_planted_fault_is_detected(faulty, family, kernel, word):
    process = run(PROGRAM, kernel, faulty[family])
    assert (process.returncode, process.stdout) == (1, "")
    assert word in process.stderr


BARRIER = "__syncthreads();"
FILL = """if (threadIdx.x < 16) table[threadIdx.x] = constant_table.entry[threadIdx.x];
  __syncthreads();"""
BY_ONE_THREAD = """if (threadIdx.x == 0) {
    for (int code = 0; code < 16; ++code) table[code] = constant_table.entry[code];
  }"""
REAL = "weight_per_thread"
PLANTED = {
    "no_barrier": (BARRIER, "", "nan"),
    "fill_by_one_thread": (FILL, BY_ONE_THREAD, "descending"),  # detected in one order only
    "two_barriers": (
        BARRIER,
        f"if (threadIdx.x == 0) __syncwarp(); else {BARRIER}",
        "different barriers",
    ),
    "past_table": ("threadIdx.x < 16", "threadIdx.x < 17", "out of bounds"),
    "past_end": ("if (weight >= n) return;", "if (weight > n) return;", "outside"),
    "shuffled": ("scales.at(weight)", "__shfl_sync(~0u, scales.at(weight), 31)", "differ"),
}


def real_kernel(old, new):
    """Its file with a fault."""
    text = (ROOT / f"kernels/nf4/{REAL}.cu").read_text()
    assert old in text
    return text.replace(old, new)


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A real kernel with each fault, under the fault's name, compiled once."""
    file = tmp_path_factory.mktemp("planted") / "planted.cu"
    text = "".join(
        real_kernel(old, new)
        .replace(f'"{REAL}"', f'"{name}"')
        .replace("namespace {", f"namespace {name} {{")
        for name, (old, new, _) in PLANTED.items()
    )
    file.write_text(text)
    return library(file)


@needs_program
@pytest.mark.parametrize(("kernel", "word"), [(k, word) for k, (*_, word) in PLANTED.items()])
def test_a_fault_planted_in_a_real_kernel_is_detected(planted, kernel, word):
    process = run(PROGRAM, kernel, planted)
    assert (process.returncode, process.stdout) == (1, "")
    assert word in process.stderr


@needs_program
def test_a_kernel_that_ends_the_program_is_wrong(tmp_path):
    file = tmp_path / f"{REAL}.cu"
    file.write_text(real_kernel("codes[weight / 2]", "codes[weight / 2 - (1ll << 46)]"))
    process = checked(file)
    assert (process.returncode, process.stdout) == (1, "")
    assert "signal 11" in process.stderr


@needs_program
@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("nf4/packed_512_registers", "__cvta_generic_to_shared"),
        ("transpose/tma_naive", "cuda.h"),
        ("transpose/mojo_tma_naive", "no file"),
    ],
)
def test_a_kernel_that_cannot_be_emulated_is_refused_in_one_line(file, reason):
    process = checked(ROOT / f"kernels/{file}.cu")
    assert (process.returncode, process.stdout) == (2, "")
    assert reason in process.stderr
    assert process.stderr.count("\n") == 1


@needs_program
def test_unknown_ptx_is_refused_when_it_runs(tmp_path):
    file = tmp_path / f"{REAL}.cu"
    file.write_text(real_kernel(BARRIER, 'asm volatile("bar.sync 0;");'))
    process = checked(file)
    assert (process.returncode, process.stdout) == (2, "")
    assert "bar.sync" in process.stderr


@pytest.mark.parametrize(
    ("cuda", "cpp"),
    [
        (
            "return a::walk<S, (A > 4), B<C>><<<grid(n), dim3(1, 2), 0, s>>>(x, y);",
            "return ::on_cpu::Launch([&](const auto&... on_cpu) "
            "{ a::walk<S, (A > 4), B<C>>(on_cpu...); }, grid(n), dim3(1, 2), 0, s)(x, y);",
        ),
        (
            'asm volatile("st.global [%0], {%1};\\n" "b;" ::"l"(a::b(to)), "f"(v[1]) : "memory");',
            '::on_cpu::inline_ptx("st.global [%0], {%1};\\n" "b;", (a::b(to)), (v[1]));',
        ),
        (
            "__shared__ alignas(16) float table[16];",
            "alignas(16) static float table[16]; ::on_cpu::poison(&table, sizeof table);",
        ),
        (
            "__shared__ typename A::B storage;",
            "static typename A::B storage; ::on_cpu::poison(&storage, sizeof storage);",
        ),
        ("int plain = a << b >> c;", "int plain = a << b >> c;"),
    ],
)
def test_cuda_syntax_is_rewritten(cuda, cpp):
    assert translated(cuda) == cpp
