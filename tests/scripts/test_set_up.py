"""The set-up: Python, packages, compilers. Anything missing is one line."""

import os
import sys
import time
from itertools import pairwise

import pytest
from make_targets import NASTY, ROOT, make, program, run

NO_NETWORK = "deps: .venv cannot be installed: is there a network? (log: build/deps.log)\n"


def test_the_environment_is_made_where_it_is_missing_or_its_lock_changed(checkout):
    program(checkout / "scripts/deps", '#!/bin/sh\necho "deps $*"; touch .venv/installed\n')
    assert "deps" not in make(checkout, "paper").stdout
    later(checkout / "requirements.lock")
    made = "deps environment requirements.txt .venv\n"
    assert make(checkout, "paper").stdout.startswith(made)
    (checkout / ".venv/installed").unlink()
    assert make(checkout, "paper").stdout.startswith(made)


@pytest.fixture
def deps(checkout, real, tools):
    """Runs scripts/deps with stand-ins for programs: status, stdout and stderr."""
    real("deps")
    (checkout / ".venv/installed").unlink()

    def call(*words, without=(), **programs):
        done = run(checkout, "scripts/deps", *words, **tools(without, **programs))
        return done.returncode, done.stdout, done.stderr

    return call


OWN = ("environment", "requirements.txt", ".venv")
# Has venv, knows its version, and is too old.
OLD = 'case "$*" in *ensurepip*) ;; --version) echo Python 3.9.2 ;; *) exit 1 ;; esac'
# New enough, and venv fails as it does without a network.
BARE = 'case "$*" in *version_info*|*ensurepip*) exit 0;; esac; echo "no network" >&2; exit 1'


def test_no_python_and_no_network_are_one_line(checkout, deps):
    said = "deps: Python 3.9.2 is too old: python3 must be 3.11 or newer\n"
    assert deps(*OWN, python3=OLD) == (2, "", said)
    status, _, said = deps(*OWN, python3=BARE)
    assert status == 2 and said.startswith("deps: installing ") and said.endswith(NO_NETWORK)
    assert (checkout / "build/deps.log").read_text() == "no network\n"
    ctrl_c = BARE.replace("exit 1", "kill -INT $PPID; exit 1")
    status, _, said = deps(*OWN, python3=ctrl_c)
    assert status == 130 and said.count("\n") == 1
    status, _, said = deps(*OWN, python3="exit 1", id="echo 1000")
    assert status == 2 and said.endswith("apt-get install -y python3 python3-venv\n")


# Makes environments whose Python is that of these tests, if there is a network.
MAKES = f"""case "$*" in
*" venv "*) for last; do :; done; [ -e network ] || exit 1
  mkdir -p "$last/bin/a folder"
  cat >"$last/bin/python" <<END
#!/bin/sh
# of $PWD/$last
case "\\$*" in *pip*) ;; *) exec {sys.executable} "\\$@";; esac
END
  chmod +x "$last/bin/python" ;;
esac"""


def test_an_environment_is_replaced_when_another_is_complete(checkout, deps, tmp_path):
    """Without a network it stays as it is."""
    own = checkout / ".venv/bin/python"
    old = own.read_text()
    assert deps(*OWN, python3=MAKES)[0] == 2
    assert own.read_text() == old
    (checkout / "network").touch()
    assert deps(*OWN, python3=MAKES)[0] == 0
    assert f"\n# of {checkout}/.venv\n" in own.read_text()
    assert deps(*OWN, python3="exit 1") == (0, "", "")
    # A link to an environment elsewhere is replaced, and what it leads to stays.
    (checkout / ".venv").rename(tmp_path / "elsewhere")
    (checkout / ".venv").symlink_to(tmp_path / "elsewhere")
    program(tmp_path / "elsewhere/bin/python", old)
    (tmp_path / "elsewhere/installed").write_text("others")
    assert deps(*OWN, python3=MAKES)[0] == 0
    assert (tmp_path / "elsewhere/bin/python").read_text() == old
    assert not (checkout / ".venv").is_symlink()


def test_packages_of_others_are_not_used(checkout, tools, tmp_path):
    """As environment modules of a cluster name them."""
    (tmp_path / "numpy.py").write_text("raise SystemExit('of another')")
    of_others = {"PYTHONPATH": str(tmp_path), "PYTHONHOME": "/nonexistent"}
    done = run(ROOT, "scripts/python", "-c", "import numpy", **of_others)
    assert (done.returncode, done.stderr) == (0, "")
    program(checkout / "scripts/deps", '#!/bin/sh\necho "<$PYTHONPATH$PYTHONHOME>"\n')
    assert make(checkout, "deps", **of_others).stdout == "<>\ndeps: all found\n"
    program(checkout / "scripts/deps", "#!/bin/sh\n")
    program(checkout / "echo", '#!/bin/sh\necho "<$PYTHONPATH$PYTHONHOME>"\n')
    (checkout / "build/end_to_end").mkdir()
    (checkout / "build/end_to_end/python").write_text("./echo\n")
    done = make(checkout, "test-end_to_end", **of_others)
    assert (done.stdout, done.stderr) == ("<>\n", "")


def test_packages_that_cannot_be_installed_are_one_line(deps):
    asks = {"apt-get": "exit 1"}
    said = "deps: cannot install libfmt-dev: is there a network? (log: build/deps.log)\n"
    begun = "deps: installing libfmt-dev\n"
    assert deps("packages", "libfmt-dev", id="echo 0", **asks) == (2, "", begun + said)
    assert deps("packages", "libfmt-dev", id="echo 1000", **asks)[2] == (
        "deps: packages are missing; run this, then the same make command again:\n"
        "sudo apt-get update && sudo apt-get install -y libfmt-dev\n"
    )


def test_a_lib_that_cmake_misses_is_installed_and_it_is_configured_again(checkout, build):
    program(checkout / "scripts/deps", '#!/bin/sh\necho "deps $*"; touch installed\n')
    misses = '[ -e installed ] || { echo "  missing: libfmt-dev libgtest-dev"; exit 1; }'
    done = build(misses)
    assert (done.returncode, done.stdout) == (0, "deps packages libfmt-dev libgtest-dev\n")
    done = build("echo 'CMake Error: of another kind'; exit 1")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines()[0] == "CMake Error: of another kind"
    program(checkout / "scripts/deps", "#!/bin/sh\necho 'deps: no network' >&2; exit 2\n")
    (checkout / "installed").unlink()
    done = build(misses)
    assert (done.returncode, done.stderr) == (2, "deps: no network\n")


def test_a_lock_has_what_its_list_pins():
    locks = {file for depth in ("", "*/", "*/*/") for file in ROOT.glob(f"{depth}*.lock")}
    others = ("build", ".venv")
    locks = [lock for lock in locks if lock.relative_to(ROOT).parts[0] not in others]
    lists = [lock.with_suffix(".txt") for lock in locks if lock.name != "peers.lock"]
    assert len(lists) == 6
    for file in lists:
        pins = {line for line in file.read_text().splitlines() if line[:1] not in "#"}
        locked = file.with_suffix(".lock").read_text().splitlines()
        assert pins and pins <= {line.partition(" ")[0] for line in locked}, file
        assert sum("--hash=sha256:" in line for line in locked) >= len(pins)


def test_the_tool_that_writes_locks_is_installed_with_hashes(checkout, tools):
    """As all other tools; pip is not called."""
    environment = """#!/bin/sh
[ "$1 $2" = "environment scripts/uv.txt" ] && mkdir -p "$3/bin" || exit 1
printf '#!/bin/sh\\necho uv "$@" >>uv.log\\n' >"$3/bin/uv" && chmod +x "$3/bin/uv"
"""
    program(checkout / "scripts/deps", environment)
    done = make(checkout, "lock", **tools(python3="exit 1", pip="exit 1"))
    assert (done.returncode, done.stderr) == (0, "")
    calls = (checkout / "uv.log").read_text().splitlines()
    assert calls and all("--generate-hashes" in call for call in calls)
    locks = [call.split()[-1] for call in calls]
    assert "scripts/uv.lock" in locks
    for lock in locks:
        lines = (ROOT / lock).read_text().splitlines()
        ends = [after for line, after in pairwise(lines) if "==" in line]
        assert ends and all("--hash=sha256:" in line for line in ends), lock


@pytest.fixture
def build(checkout, real, tools):
    """Runs scripts/build with this text for cmake; `before`: words in front of it."""
    real("build")
    for file in ("CMakeLists.txt", "CMakePresets.json", "kernels/nf4/a.cu", "kernels/nf4/a.py"):
        (checkout / file).parent.mkdir(parents=True, exist_ok=True)
        (checkout / file).touch()

    def call(cmake, *targets, before=(), **given):
        environment = {"PRESET": "gpu", "HAS_GPU": "yes"} | tools(cmake=cmake) | given
        return run(checkout, *before, "scripts/build", *targets, **environment)

    return call


def later(file):
    """Sets a later time of change."""
    at = time.time() + 2
    os.utime(file, (at, at))


def test_arch_and_a_new_kernel_change_what_is_configured(checkout, build):
    (checkout / "build/gpu/CMakeCache.txt").write_text("CMAKE_CUDA_ARCHITECTURES:STRING=90\n")
    said = """echo "$*" | sed 's/ -DCMAKE_C[A-Z]*_COMPILER_LAUNCHER=[^ ]*//g'"""  # of ccache
    cmake = f'case "$1" in --preset) mkdir -p build/gpu; {said} >>configured;; esac'
    for arch in ("90", "sm_90", "80;90", ""):
        assert build(cmake, "all", ARCH=arch).returncode == 0
    later(checkout / "kernels")
    assert build(cmake).returncode == 0
    assert (checkout / "configured").read_text().splitlines() == [
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=90",
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=80;90",
        "--preset gpu",
    ]
    done = build(cmake, "all", HAS_GPU="")
    assert done.stderr == "PRESET=gpu: no GPU here; add ARCH=90, or another architecture\n"


def test_running_programs_are_not_built_again(checkout, build):
    """While a `make` measures, another starts at once if it builds nothing, else after it."""
    cmake, cpu = 'echo "$1" >>calls', {"PRESET": "cpu"}
    assert build(cmake, "one", **cpu).returncode == 0
    assert (checkout / "calls").read_text().split() == ["--preset", "--build"]
    measuring = ["flock", "--shared", "build/cpu"]
    for plan, status in (("Built target one", 0), ("Building one.cpp.o", 124), ("", 124)):
        (checkout / "build/cpu/Makefile").write_text(f"one:\n\tfalse {plan}\n" * bool(plan))
        done = build(cmake, "one", before=["timeout", "2", *measuring], **cpu)
        assert (done.returncode, "waiting" in done.stderr) == (status, bool(status))
    (checkout / "build/cpu/Makefile").write_text("one:\n")
    for arch, status in (("", 0), ("90", 124)):
        done = build(cmake, "one", before=["timeout", "2", *measuring], **cpu, ARCH=arch)
        assert done.returncode == status
    assert len((checkout / "calls").read_text().split()) == 2
    # A pass that reads compiled code builds its targets.
    done = build(cmake, "one", before=["timeout", "60", *measuring], PRESET="sass")
    assert done.returncode == 0


@pytest.mark.parametrize("arch", ["9.0", "90,80", "90;;x", "$(id)"])
def test_an_invalid_arch_is_one_line(build, arch):
    done = build("exit 1", "all", ARCH=arch)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ARCH: '") and done.stderr.count("\n") == 1


def test_an_arch_that_nvcc_does_not_know_is_one_line(build, tools):
    path = tools(nvcc="printf '%s\\n' sm_80 sm_90", cmake="exit 1")
    for arch, name in (("999", "999"), ("80;70-real", "70-real"), ("90a;75", "75")):
        done = build("exit 1", "all", ARCH=arch, **path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"ARCH: '{name}' ") and done.stderr.endswith(" 80 90\n")


def test_the_drop_in_is_built_for_all_architectures_or_the_given_ones(checkout, real, tools):
    real("dropin")
    program(checkout / "scripts/build", '#!/bin/sh\necho "$PRESET $ARCH $*"\n')
    path = tools(nvcc="printf '%s\\n' sm_50 sm_75 sm_90 sm_90a sm_100 sm_110 sm_103")
    for arch, asked, said in (
        ("", "75-real;90-real;100-real;103-real;110", "75;90;100;103;110"),
        ("80-real;90", "80-real;90", "80;90"),
        (NASTY, NASTY, NASTY),
    ):
        done = make(checkout, "dropin", f"ARCH={arch}", **path)
        assert (done.returncode, done.stderr) == (0, "")
        built = f"build/dropin/libreprolab_nf4.so: built for {said}\n"
        assert (
            done.stdout
            == f"dropin {asked} reprolab_nf4_dropin reprolab_nf4_layers code_digest\n{built}"
        )
    assert not list(checkout.rglob("injected"))
    without = tools(without=["nvcc"])["PATH"].partition(":")[2]  # nor our own
    done = run(checkout, "scripts/dropin", PATH=without)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dropin: needs nvcc; install the CUDA toolkit, 12.4 or newer\n"
