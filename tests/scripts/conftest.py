import json
import shutil

import made
import pytest
from front_door import ECHO, MEASURED, PYTHON, ROOT, declare, program


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


@pytest.fixture
def lab(checkout):
    """Three passes of a program that measures nothing, and a driver that knows three GPUs."""
    for file in (ROOT / "data").glob("*.json"):
        shutil.copy(file, checkout / "data")
    declare(checkout, one="bench --x", two="bench --y", three="bench --z")
    program(checkout / "build/cpu/bin/bench", MEASURED)
    smi = 'case "$*" in *=2*) echo "Tesla T4";; *query-gpu=name*) echo "NVIDIA H200";; esac'
    program(checkout / "nvidia-smi", f"#!/bin/sh\n{smi}\n")
    row = made.record(made.forward_pass("qwen3-32b", 2), "branch_tree", [10.0, 11.0, 12.0])
    file = made.results("mine", "one", [row], provenance=made.provenance(commit="a" * 40))
    (checkout / "template.json").write_text(json.dumps(file))
    return checkout
