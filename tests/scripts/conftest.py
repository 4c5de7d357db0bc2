import os
import shutil
import sys
from pathlib import Path

import pytest
from make_targets import ECHO, PYTHON, ROOT, declare, program


@pytest.fixture
def checkout(tmp_path):
    """Makefile and scripts/, with programs that print their arguments and need no building."""
    folder = tmp_path / "a checkout"
    for name in ("scripts", "reprolab"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / "data").mkdir()
    for file in (ROOT / "data").glob("*.json"):
        shutil.copy(file, folder / "data")
    (folder / "reprolab_nf4").symlink_to(ROOT / "reprolab_nf4")
    for name in ("end_to_end", "product"):
        (folder / "experiments" / name).mkdir(parents=True)
    (folder / "experiments/end_to_end/end_to_end.lock").touch()
    for file in ("reference/CMakeLists.txt", "harness/CMakeLists.txt"):
        copied = folder / file
        copied.parent.mkdir(parents=True)
        shutil.copy(ROOT / file, copied)
    for file in (ROOT / "experiments").glob("*.py"):
        shutil.copy2(file, folder / "experiments")
    declare(folder, check="verify --brief", one="bench --x")
    for preset in ("cpu", "gpu"):
        for name in ("bench", "verify"):
            program(folder / f"build/{preset}/bin" / name, ECHO)
    program(folder / "scripts/build", "#!/bin/sh\n")
    program(folder / "scripts/dropin", "#!/bin/sh\necho built\n")
    program(folder / "scripts/python", PYTHON)
    program(folder / "echo", ECHO)
    names_python = "mkdir -p build/end_to_end; echo ./echo >build/end_to_end/python"
    program(folder / "scripts/deps", f"#!/bin/sh\n[ $1 = environment ] || {{ {names_python}; }}\n")
    program(folder / ".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shutil.copy(folder / "requirements.lock", folder / ".venv/installed")
    return folder


@pytest.fixture
def real(checkout):
    """Replaces a script's substitute by our own script."""
    return lambda name: shutil.copy(ROOT / "scripts" / name, checkout / "scripts")


@pytest.fixture
def tools(checkout):
    """A PATH that begins with these programs, and lacks the folders of programs in `without`."""

    def put(without=(), **programs):
        folder = checkout.parent / "tools"
        for name, text in programs.items():
            program(folder / name, f"#!/bin/bash\n{text}\n")
        path = os.environ["PATH"].split(":")
        path = [d for d in path if not any(Path(d, name).exists() for name in without)]
        return {"PATH": ":".join([str(folder), *path])}

    return put
