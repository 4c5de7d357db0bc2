"""The package for pip with a small library: installed next to a fake bitsandbytes, removed."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import fake_bitsandbytes
import pytest
from make_targets import program

ROOT = Path(__file__).resolve().parents[2]
TAKEN = ("CMakeLists.txt", "LICENSE", "docs/drop-in.md", "pyproject.toml", "reprolab_nf4")
NOT_PACKED = ("csrc", "tests", "__pycache__")
SCRIPTS = ("scripts/python", "scripts/wheel")
LIBRARY, EXTENSION = "reprolab_nf4/libreprolab_nf4.so", "reprolab_nf4/_layers.abi3.so"
INSTALL = "import reprolab_nf4; installed = reprolab_nf4.install(); print(installed.kernels())"


def run(*command, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))}
    environment |= options.pop("variables", {})
    command = [*map(str, command)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, libraries):
    """The part of the project that the package needs; the build script copies a library."""
    for tool in ("hatchling", "auditwheel"):
        pytest.importorskip(tool, reason=f"NOT TESTED, no {tool}")
    folder = tmp_path_factory.mktemp("checkout")
    for name in (*TAKEN, *SCRIPTS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    (folder / "build/dropin").mkdir(parents=True)
    (folder / ".venv").symlink_to(sys.prefix)
    # A library in place of the extension, which a substitute of torch could not load.
    makes = f"cp {libraries['ours']} build/dropin/libreprolab_nf4.so\n"
    makes += f"cp {libraries['other']} build/dropin/_layers.abi3.so"
    program(folder / "scripts/dropin", f"#!/bin/sh\n{makes}\n")
    return folder


@pytest.fixture(scope="module")
def wheel(checkout):
    (checkout / "dist").mkdir()
    (checkout / "dist/reprolab_nf4-0.0.9-py3-none-manylinux_2_17_x86_64.whl").touch()
    done = run("scripts/wheel", cwd=checkout)
    assert (done.returncode, done.stderr) == (0, "")
    made = checkout / done.stdout.strip()
    assert [*made.parent.glob("*.whl")] == [made]
    return made


def test_it_holds_the_package_the_library_and_the_licence(wheel, libraries):
    version = re.search(
        r"project\(reprolab VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text()
    )
    about = f"reprolab_nf4-{version[1]}.dist-info"
    package = ROOT / "reprolab_nf4"
    files = [f for f in package.rglob("*") if f.is_file()]
    files = [f for f in files if f.relative_to(package).parts[0] not in NOT_PACKED]
    sources = {str(file.relative_to(ROOT)) for file in files}
    assert "reprolab_nf4/tables/sm_90.json" in sources
    records = {
        f"{about}/{name}"
        for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE", "entry_points.txt")
    }
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.endswith("/")}
        assert packed == {*sources, *records, LIBRARY, EXTENSION}
        assert archive.read(LIBRARY) == libraries["ours"].read_bytes()
        # The user chooses torch and bitsandbytes: pip must not replace them.
        assert b"Requires-Dist" not in archive.read(f"{about}/METADATA")
    assert wheel.name.startswith(f"reprolab_nf4-{version[1]}-py3-none-manylinux")


def test_pip_installs_it_and_removes_all_of_it(wheel, libraries, tmp_path):
    environment = tmp_path / "environment"
    assert run(sys.executable, "-m", "venv", "--without-pip", environment).returncode == 0
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    before = {*environment.rglob("*")}
    done = run(*pip, "install", "--no-index", wheel)
    assert done.returncode == 0, done.stderr

    fake_bitsandbytes.write(tmp_path, "0.50.2", libraries["bitsandbytes"])
    with_stand_in = {"cwd": tmp_path, "variables": {"PYTHONPATH": str(tmp_path)}}
    done = run(python, "-c", INSTALL, **with_stand_in)
    assert (done.stdout, done.stderr) == ("['streaming', 'tree']\n", "")
    done = run(python, "-c", "import reprolab_nf4; print(reprolab_nf4.BUILT)", **with_stand_in)
    (installed,) = environment.glob(f"lib/*/site-packages/{LIBRARY}")
    assert done.stdout == f"{installed}\n"

    for command in ((environment / "bin/reprolab-nf4",), (python, "-m", "reprolab_nf4")):
        done = run(*command, "tune", "--model=none", "--output=x", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: MODEL: folder 'none' does not exist")

    fake_bitsandbytes.write(tmp_path, "0.50.2", Path(), fake_bitsandbytes.NO_LIBRARY)
    done = run(python, "-c", INSTALL, **with_stand_in)
    assert done.stderr.splitlines()[-1] == (
        "reprolab_nf4.DropinError: bitsandbytes runs without its CUDA library here: "
        "nothing to replace"
    )
    assert run(*pip, "uninstall", "--yes", "reprolab_nf4").returncode == 0
    assert {*environment.rglob("*")} - before == set()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("echo needs nvcc >&2\nexit 2", "needs nvcc"),
        ("rm -f build/dropin/_layers*", "headers of Python"),
    ],
)
def test_without_a_library_or_extension_there_is_no_wheel(script, error, checkout):
    compiler = checkout / "scripts/dropin"
    works = compiler.read_text()
    compiler.write_text(f"#!/bin/sh\n{script}\n")
    done = run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", cwd=checkout)
    compiler.write_text(works)
    assert done.returncode != 0 and error in done.stderr
