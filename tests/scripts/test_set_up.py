"""The set-up: Python, packages, compilers, other checkouts. Anything missing is one line."""

import shutil
import subprocess
import sys

import pytest
from make_targets import ROOT, program, run

OWN = ("environment", "requirements.lock", ".venv")
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


def test_no_python_no_network_and_no_package_are_one_line(deps):
    asks = {"id": "echo 0", "apt-get": "exit 1"}
    for words, programs, noun in (
        (OWN, {"python3": OLD}, "Python 3.10.9 is too old"),
        (OWN, {"python3": BARE}, ".venv cannot be installed: is there a network?"),
        (OWN, {"python3": "exit 1", "id": "echo 1000"}, "apt-get install -y python3 python3-venv"),
        (("packages", "libfmt-dev"), asks, "cannot install libfmt-dev: is there a network?"),
    ):
        status, out, err = deps(*words, **programs)
        assert (status, out) == (2, "") and noun in err.splitlines()[-1]
    interrupted = BARE.replace("exit 1", "kill -INT $PPID; exit 1")
    assert deps(*OWN, python3=interrupted)[0] == 130


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
    # Packages that pip put elsewhere, as pip.conf may say, are not installed.
    (checkout / "elsewhere").touch()
    (checkout / ".venv/installed").unlink()
    assert deps(*OWN, python3=MAKES)[0] == 2
    assert not (checkout / ".venv/installed").exists()


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


def test_arch_changes_what_is_configured(checkout, build, tools):
    (checkout / "build/gpu/CMakeCache.txt").write_text("CMAKE_CUDA_ARCHITECTURES:STRING=90\n")
    cmake = 'case "$1" in --preset) echo "$*" >>configured;; esac'
    for arch in ("90", "sm_90", "80;90", ""):
        assert build(cmake, "all", ARCH=arch).returncode == 0
    assert (checkout / "configured").read_text().splitlines() == [
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=90",
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=80;90",
    ]
    assert "add ARCH=90" in build(cmake, "all", HAS_GPU="").stderr
    path = tools(nvcc="printf '%s\\n' sm_80 sm_90", cmake="exit 1")
    for arch in ("9.0", "90;;x", "999", "80;70-real"):
        done = build("exit 1", "all", ARCH=arch, **path)
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
        assert build(configures, "all", folder=folder).returncode == 0
        assert (folder / "log").read_text().count("configured") == times
    moved = tmp_path / "moved"
    copy.rename(moved)
    assert f"was configured for {copy}" in build(configures, "all", folder=moved).stderr


def test_line_ends_are_kept_where_git_converts_them(tmp_path):
    """core.autocrlf would change what is hashed, and bash would not run scripts."""
    (tmp_path / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    (tmp_path / "script").write_bytes(b"#!/bin/sh\n")
    git = ["git", "-c", "core.autocrlf=true", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in ("init -q", "add -A", "commit -qm all", "rm -q script", "checkout HEAD script"):
        subprocess.run([*git, *words.split()], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "script").read_bytes() == b"#!/bin/sh\n"
