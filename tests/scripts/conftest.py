import shutil

import pytest
from front_door import ECHO, PYTHON, ROOT, declare, program


@pytest.fixture
def checkout(tmp_path):
    """Makefile and scripts/, with programs that print their arguments and need no building."""
    folder = tmp_path / "a checkout's folder, $(x)"
    for name in ("scripts", "records"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Makefile", "requirements.txt", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / "data").mkdir()
    shutil.copy(ROOT / "data/experiment.schema.json", folder / "data")
    (folder / "experiments/mine").mkdir(parents=True)
    for file in (ROOT / "experiments").glob("*.py"):
        shutil.copy(file, folder / "experiments")
    declare(folder, check="verify --brief", one="bench --x")
    (folder / "build/cpu/bin").mkdir(parents=True)
    for name in ("bench", "verify"):
        program(folder / "build/cpu/bin" / name, ECHO)
    program(folder / "scripts/build", "#!/bin/sh\n")
    program(folder / "scripts/python", PYTHON)
    (folder / "build/deps.stamp").touch()
    (folder / "build/python").write_text("python3\n")
    return folder
