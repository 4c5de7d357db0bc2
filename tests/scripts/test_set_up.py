"""The set-up: Python, packages, compilers, other checkouts. Anything missing is one line."""

import shutil
import sys

import pytest
from make_targets import ROOT, make, program, run

OWN = ("environment", "requirements.txt", ".venv")
NO_NETWORK = "deps: .venv cannot be installed: is there a network? (log: build/deps.log)\n"
# Has venv, knows its version, and is too old.
OLD = 'case "$*" in *ensurepip*) ;; --version) echo Python 3.10.9 ;; *) exit 1 ;; esac'
# New enough, and venv fails as it does without a network.
BARE = 'case "$*" in *version_info*|*ensurepip*) exit 0;; esac; echo "no network" >&2; exit 1'
# Makes environments whose Python is that of these tests, if there is a network. Its pip installs
# the one package of the list, unless it is told to put it elsewhere.
MAKES = f"""case "$*" in
*" venv "*) for last; do :; done; [ -e network ] || exit 1
  mkdir -p "$last/bin"
  cat >"$last/bin/python" <<END
#!/bin/sh
# of $PWD/$last
case "\\$*" in
*pip*) echo "\\$*" >>pip.log
  [ "\\$(wc -l <pip.log)" -gt 1 ] && [ -z "\\$PIP_TARGET" ] && [ "\\$PIP_USER" = 0 ] || exit 1 ;;
*metadata*) [ ! -e elsewhere ] ;;
*) exec {sys.executable} "\\$@";;
esac
END
  chmod +x "$last/bin/python" ;;
esac"""


@pytest.fixture
def deps(checkout, real, tools):
    """Runs scripts/deps with stand-ins for programs: status, stdout and stderr."""
    real("deps")
    (checkout / ".venv/installed").unlink()

    def call(*words, without=(), given=(), **programs):
        done = run(checkout, "scripts/deps", *words, **tools(without, **programs), **dict(given))
        return done.returncode, done.stdout, done.stderr

    return call


def test_no_python_and_no_network_are_one_line(checkout, deps):
    said = "deps: Python 3.10.9 is too old: python3 must be 3.11 or newer\n"
    assert deps(*OWN, python3=OLD) == (2, "", said)
    status, _, said = deps(*OWN, python3=BARE)
    assert status == 2 and said.startswith("deps: installing ") and said.endswith(NO_NETWORK)
    assert (checkout / "build/deps.log").read_text() == "no network\n"
    status, _, said = deps(*OWN, python3=BARE.replace("exit 1", "kill -INT $PPID; exit 1"))
    assert status == 130 and said.count("\n") == 1
    status, _, said = deps(*OWN, python3="exit 1", id="echo 1000")
    assert status == 2 and said.endswith("apt-get install -y python3 python3-venv\n")


def test_the_oldest_python_is_the_same_everywhere():
    """The one that .ci/bare has: Debian 12's."""
    project = (ROOT / "pyproject.toml").read_text()
    assert 'requires-python = ">=3.11"' in project and 'target-version = "py311"' in project
    assert "sys.version_info < (3, 11)" in (ROOT / "scripts/deps").read_text()
    assert "--python-version 3.11" in (ROOT / "Makefile").read_text()


def test_an_environment_is_replaced_when_another_is_complete(checkout, deps, tmp_path):
    """Without a network it stays as it is. A failed installation is tried once again, and the
    user's settings of pip do not apply.
    """
    own, settings = checkout / ".venv/bin/python", {"PIP_TARGET": "/nowhere", "PIP_USER": "1"}
    old = own.read_text()
    assert deps(*OWN, python3=MAKES)[0] == 2
    assert own.read_text() == old
    (checkout / "network").touch()
    assert deps(*OWN, python3=MAKES, given=settings)[0] == 0
    assert f"\n# of {checkout}/.venv\n" in own.read_text()
    assert len((checkout / "pip.log").read_text().splitlines()) == 2
    assert deps(*OWN, python3="exit 1") == (0, "", "")
    # A link to an environment elsewhere is replaced, and what it leads to stays.
    (checkout / ".venv").rename(tmp_path / "elsewhere")
    (checkout / ".venv").symlink_to(tmp_path / "elsewhere")
    program(tmp_path / "elsewhere/bin/python", old)
    (tmp_path / "elsewhere/installed").write_text("others")
    assert deps(*OWN, python3=MAKES)[0] == 0
    assert (tmp_path / "elsewhere/bin/python").read_text() == old
    assert not (checkout / ".venv").is_symlink()
    # Packages that pip put elsewhere, as pip.conf may say, are not installed.
    (checkout / "elsewhere").touch()
    (checkout / ".venv/installed").unlink()
    assert deps(*OWN, python3=MAKES)[0] == 2
    assert not (checkout / ".venv/installed").exists()


def test_packages_that_cannot_be_installed_are_one_line(deps):
    asks = {"apt-get": "exit 1"}
    said = "deps: cannot install libfmt-dev: is there a network? (log: build/deps.log)\n"
    begun = "deps: installing libfmt-dev\n"
    assert deps("packages", "libfmt-dev", id="echo 0", **asks) == (2, "", begun + said)
    assert deps("packages", "libfmt-dev", id="echo 1000", **asks)[2].endswith(
        "\nsudo apt-get update && sudo apt-get install -y libfmt-dev\n"
    )


@pytest.fixture
def build(checkout, real, tools):
    """Runs scripts/build with this text for cmake."""
    real("build")
    for file in ("CMakeLists.txt", "CMakePresets.json"):
        (checkout / file).touch()

    def call(cmake, *targets, folder=checkout, **given):
        environment = {"PRESET": "gpu", "HAS_GPU": "yes"} | tools(cmake=cmake) | given
        return run(folder, "scripts/build", *targets, **environment)

    return call


def test_a_lib_that_cmake_misses_is_installed_and_it_is_configured_again(checkout, build):
    program(checkout / "scripts/deps", '#!/bin/sh\necho "deps $*"; touch installed\n')
    misses = '[ -e installed ] || { echo "  missing: libfmt-dev libgtest-dev"; exit 1; }'
    done = build(misses)
    assert (done.returncode, done.stdout) == (0, "deps packages libfmt-dev libgtest-dev\n")
    done = build("echo 'CMake Error: of another kind'; exit 1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == "CMake Error: of another kind"


def test_arch_changes_what_is_configured(checkout, build):
    (checkout / "build/gpu/CMakeCache.txt").write_text("CMAKE_CUDA_ARCHITECTURES:STRING=90\n")
    cmake = 'case "$1" in --preset) echo "$*" >>configured;; esac'
    for arch in ("90", "sm_90", "80;90", ""):
        assert build(cmake, "all", ARCH=arch).returncode == 0
    assert (checkout / "configured").read_text().splitlines() == [
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=90",
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=80;90",
    ]
    done = build(cmake, "all", HAS_GPU="")
    assert done.stderr == "PRESET=gpu: no GPU here; add ARCH=90, or another architecture\n"
    for arch in ("9.0", "90,80", "90;;x"):
        done = build("exit 1", "all", ARCH=arch)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("ARCH: '") and done.stderr.count("\n") == 1


def test_a_copied_checkout_builds_its_own_sources(checkout, build, tmp_path):
    """CMake's cache names the tree that was configured, whatever folder it lies in."""
    cmake = "mkdir -p build/gpu; echo CMAKE_HOME_DIRECTORY:INTERNAL=$PWD >build/gpu/CMakeCache.txt"
    configures = f'[ "$1" = --build ] || {{ echo configured >>log; {cmake}; }}'
    copy = tmp_path / "copy"
    for folder, times in ((checkout, 1), (checkout, 1), (copy, 2), (copy, 2)):
        if not folder.exists():
            shutil.copytree(checkout, copy)
        done = build(configures, "all", folder=folder)
        assert done.returncode == 0
        assert (folder / "log").read_text().count("configured") == times
        if "was configured for" in done.stderr:
            assert f"was configured for {checkout}: configuring it again" in done.stderr
            assert times == 2
    moved = tmp_path / "moved"
    copy.rename(moved)
    assert f"was configured for {copy}" in build(configures, "all", folder=moved).stderr


def test_an_arch_that_nvcc_does_not_know_is_one_line(build, tools):
    path = tools(nvcc="printf '%s\\n' sm_80 sm_90", cmake="exit 1")
    for arch, name in (("999", "999"), ("80;70-real", "70-real"), ("90a;75", "75")):
        done = build("exit 1", "all", ARCH=arch, **path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"ARCH: '{name}' ") and done.stderr.endswith(" 80 90\n")


def test_the_drop_in_is_built_for_all_architectures_or_the_given_ones(checkout, real, tools):
    real("dropin")
    program(checkout / "scripts/build", '#!/bin/sh\necho "$PRESET $ARCH"\n')
    path = tools(nvcc="printf '%s\\n' sm_50 sm_75 sm_90 sm_90a sm_100 sm_110 sm_103")
    for given, asked in (((), "75-real;90-real;100-real;103-real;110"), (["ARCH=80"], "80")):
        done = make(checkout, "dropin", *given, **path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[0] == f"dropin {asked}"
    without = tools(without=["nvcc"])["PATH"].partition(":")[2]  # nor our own
    done = run(checkout, "scripts/dropin", PATH=without)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dropin: needs nvcc; install the CUDA toolkit, 12.4 or newer\n"
