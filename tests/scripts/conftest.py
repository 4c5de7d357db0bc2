import shutil

import pytest
from front_door import ECHO, ROOT, program


@pytest.fixture
def checkout(tmp_path):
    """Makefile and scripts/, with programs that print their arguments and need no building."""
    folder = tmp_path / "a checkout's folder, $(x)"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("Makefile", "requirements.txt", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    (folder / "experiments/mine").mkdir(parents=True)
    (folder / "experiments/mine/passes").write_text("check verify {peers} --brief\n")
    (folder / "build/cpu/bin").mkdir(parents=True)
    program(folder / "build/cpu/bin/verify", ECHO)
    program(folder / "scripts/build", "#!/bin/sh\n")
    program(folder / "scripts/python", ECHO)
    (folder / "build/deps.stamp").touch()
    (folder / "build/python").write_text("python3\n")
    return folder
