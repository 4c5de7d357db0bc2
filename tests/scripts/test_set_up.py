"""The set-up: Python, packages, compilers. What is missing is one line."""

import os
import shutil
import time
from pathlib import Path

import pytest
from front_door import ROOT, make, program, run


@pytest.mark.parametrize("text", ["", "\n", "nowhere/python\n"])
def test_a_python_that_is_gone_is_looked_for_again(checkout, text):
    (checkout / "build/python").write_text(text)
    program(checkout / "scripts/deps", '#!/bin/sh\necho "deps $1"; echo python3 >build/python\n')
    done = make(checkout, "render-recorded", "RECORDED=x")
    assert done.stdout == "deps python\n"
    assert make(checkout, "render-recorded", "RECORDED=x").stdout == ""


def deps(folder, part, **programs):
    """Runs scripts/deps with stand-ins for programs, in front of the system's."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in programs.items():
        program(tools / name.replace("_", "."), f"#!/bin/bash\n{text}\n")
    path = f"{tools}:{os.environ['PATH']}"
    return run(folder, "scripts/deps", part, PATH=path)


# Knows its version and is too old for everything else.
OLD = '[ "$1" != --version ] || { echo Python 3.9.2; exit; }; exit 1'
# New enough, with nothing installed, and venv fails as it does without a network.
BARE = 'case "$*" in *version_info*|*ensurepip*) exit 0;; esac; echo "no network" >&2; exit 1'


def test_a_python_that_is_too_old_is_one_line(checkout):
    newer = {f"python3_{minor}": "exit 1" for minor in (11, 12, 13, 14)}
    done = deps(checkout, "python", python3=OLD, **newer)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "deps: Python 3.9.2 is too old: claims/ and plots/ need Python 3.11 or newer\n"
    )


def test_no_network_is_one_line(checkout):
    done = deps(checkout, "python", python3=BARE)
    assert done.returncode == 2
    assert done.stderr == "deps: cannot make .venv: is there a network? (log: build/deps.log)\n"
    assert (checkout / "build/deps.log").read_text() == "no network\n"


# Has all packages but NVIDIA's two.
WITHOUT_READERS = 'case "$*" in *nvidia-cuda*|*"-m venv"*) echo "no network" >&2; exit 1;; esac'


@pytest.mark.parametrize("missing", ["", "torch==2.11.1", "to==1"])
def test_a_lock_has_what_its_list_pins(checkout, missing):
    for folder in ("languages", "experiments/end_to_end"):
        shutil.copytree(ROOT / folder, checkout / folder)
    with (checkout / "experiments/end_to_end/requirements.txt").open("a") as file:
        file.write(f"{missing}\n" * bool(missing))
    done = run(checkout, "scripts/lock", "--check")
    said = f"lock: experiments/end_to_end/requirements.lock lacks {missing}; run make lock\n"
    assert (done.returncode, done.stderr) == ((1, said) if missing else (0, ""))


def test_the_readers_of_nvccs_code_come_from_the_toolkit_or_the_requirements(checkout, monkeypatch):
    readers = ("nvcc", "nvdisasm", "cuobjdump")
    path = [
        d for d in os.environ["PATH"].split(":") if not any(Path(d, r).exists() for r in readers)
    ]
    monkeypatch.setenv("PATH", ":".join(path))
    python = {"python3": WITHOUT_READERS}
    assert deps(checkout, "python", **python).stdout == "deps: all found\n"  # nothing to read
    done = deps(checkout, "python", **python, nvcc="exit 0")
    assert done.stderr == "deps: cannot make .venv: is there a network? (log: build/deps.log)\n"
    done = deps(checkout, "python", **python, nvdisasm="exit 0", cuobjdump="exit 0")
    assert done.stdout == "deps: all found\n"


def test_packages_that_cannot_be_installed_are_one_line(checkout):
    probe = 'case "$*" in *-S*) echo "-- missing: libfmt-dev";; esac'
    done = deps(checkout, "build", cmake=probe, **{"apt-get": "exit 1", "id": "echo 0"})
    assert done.returncode == 2
    assert done.stdout == "deps: installing libfmt-dev\n"
    assert (
        done.stderr
        == "deps: cannot install libfmt-dev: is there a network? (log: build/deps.log)\n"
    )
    done = deps(checkout, "build", cmake=probe, **{"apt-get": "exit 1", "id": "echo 1000"})
    assert done.stderr == (
        "deps: missing packages; run this, then the same make command again:\n"
        "sudo apt-get update && sudo apt-get install -y libfmt-dev\n"
    )


def test_arch_and_a_new_kernel_change_what_is_configured(checkout):
    shutil.copy(ROOT / "scripts/build", checkout / "scripts/build")
    (checkout / "CMakePresets.json").touch()
    said = """echo "$*" | sed 's/ -DCMAKE_C[A-Z]*_COMPILER_LAUNCHER=[^ ]*//g'"""  # of ccache
    cmake = f'case "$1" in --preset) mkdir -p build/gpu; {said} >>configured;; esac'
    (checkout / "tools").mkdir()
    program(checkout / "tools/cmake", f"#!/bin/bash\n{cmake}\n")
    path = f"{checkout}/tools:{os.environ['PATH']}"
    for arch in ("90", "sm_90", "80;90", ""):
        environment = {"PATH": path, "PRESET": "gpu", "ARCH": arch, "HAS_GPU": "yes"}
        assert run(checkout, "scripts/build", "all", **environment).returncode == 0
    assert (checkout / "configured").read_text().splitlines() == [
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=90",
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=80;90",
    ]
    (checkout / "kernels").mkdir()
    later = time.time() + 1  # so that the file system's clock tells it apart
    os.utime(checkout / "kernels", (later, later))
    assert run(checkout, "scripts/build", **environment).returncode == 0
    assert (checkout / "configured").read_text().splitlines()[2:] == ["--preset gpu"]
    done = run(checkout, "scripts/build", "all", **environment | {"HAS_GPU": ""})
    assert done.stderr == "PRESET=gpu: no GPU here; add ARCH=90, or another architecture\n"


def test_what_runs_is_not_built_anew(checkout):
    """`make` beside one that measures: at once where nothing is to be built, else behind it."""
    shutil.copy(ROOT / "scripts/build", checkout / "scripts/build")
    for file in ("CMakeLists.txt", "CMakePresets.json", "kernels/nf4/a.cu", "kernels/nf4/a.py"):
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
        (checkout / file).touch()
    tools = checkout.parent / "tools"
    tools.mkdir()
    program(tools / "cmake", '#!/bin/sh\necho "$1" >>calls\n')
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "PRESET": "cpu"}
    assert run(checkout, "scripts/build", "one", **environment).returncode == 0
    assert (checkout / "calls").read_text().split() == ["--preset", "--build"]
    measuring = ["flock", "--shared", "build/cpu", "scripts/build"]
    later = time.time() + 2  # so that the file system's clock tells it apart
    cases = (("", "one", 0), ("", "two", 124), ("a.py", "one", 0), ("a.cu", "one", 124))
    for changed, target, status in cases:
        if changed:
            os.utime(checkout / "kernels/nf4" / changed, (later, later))
        done = run(checkout, "timeout", "3", *measuring, target, **environment)
        said = "waiting until nothing runs what was built: there is something to build anew\n"
        assert (done.returncode, done.stderr) == (status, said * bool(status))
    assert len((checkout / "calls").read_text().split()) == 2
    other = run(checkout, "timeout", "60", *measuring, "one", **environment | {"PRESET": "sass"})
    assert other.returncode == 0, "a pass that reads code off the compiler builds what it needs"


@pytest.mark.parametrize("arch", ["9.0", "90,80", "90;;x", "$(id)"])
def test_an_arch_that_is_none_is_one_line(checkout, arch):
    shutil.copy(ROOT / "scripts/build", checkout / "scripts/build")
    done = run(checkout, "scripts/build", "all", PRESET="gpu", ARCH=arch, HAS_GPU="yes")
    said = f"ARCH: '{arch.removeprefix('sm_')}' is no architecture; give compute capabilities"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(said) and done.stderr.count("\n") == 1


def test_the_drop_in_is_built_for_all_that_nvcc_has_or_for_what_is_given(checkout):
    program(checkout / "scripts/build", '#!/bin/sh\necho "$PRESET $ARCH $*"\n')
    listed = "sm_50 sm_75 sm_90 sm_90a sm_100 sm_110 sm_103"
    tools = checkout.parent / "tools"  # where make can find them, in spite of the folder's name
    tools.mkdir()
    program(tools / "nvcc", f"#!/bin/sh\nprintf '%s\\n' {listed}\n")
    path = f"{tools}:{os.environ['PATH']}"
    built = "build/dropin/libreprolab_nf4.so: built for"
    for arch, asked, said in (
        ("", "75-real;90-real;100-real;103-real;110", "75;90;100;103;110"),
        ("90", "90", "90"),
        ("80-real;90", "80-real;90", "80;90"),
        ("$(touch injected)", "$(touch injected)", "$(touch injected)"),
    ):
        done = make(checkout, "dropin", f"ARCH={arch}", PATH=path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"dropin {asked} reprolab_nf4_dropin code_digest\n{built} {said}\n"
    assert not list(checkout.rglob("injected"))


def test_no_cuda_toolkit_is_one_line(checkout):
    path = [d for d in os.environ["PATH"].split(":") if not Path(d, "nvcc").exists()]
    done = run(checkout, "scripts/dropin", PATH=":".join(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dropin: needs nvcc; install the CUDA toolkit, 12.4 or newer\n"
