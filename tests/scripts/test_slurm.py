"""A job array on the test's own Slurm, on this machine."""

import getpass
import json
import shutil
import socket
import subprocess
from contextlib import ExitStack

import made
import pytest
from front_door import MEASURED, ROOT, began, own_environment, program, wait_for

DAEMONS = ("munged", "slurmctld", "slurmd")
MISSING = [
    name for name in ("sbatch", *DAEMONS) if not shutil.which(name, path="/usr/sbin:/usr/bin")
]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)} here: apt-get install slurm-wlm munge"
)
MODELS = ("gemma-2-27b", "qwen3-32b")
SECONDS = 120  # for an array of tasks that do nothing, on a busy machine
CONFIGURATION = """ClusterName=reprolab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes={host} Default=YES
"""


def free_ports(count):
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment of Slurm's commands; the node has four CPUs on any machine."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(bytes(range(256)) * 4)
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    facts = {"host": host, "user": getpass.getuser(), "folder": folder, "ports": free_ports(2)}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(**facts))
    environment = own_environment() | {"SLURM_CONF": str(folder / "slurm.conf")}
    environment["PATH"] += ":/usr/sbin"
    files = ("socket", "pid", "log", "seed")
    munge = [f"--{name}{'-file' * (name != 'socket')}={folder}/munge.{name}" for name in files]
    commands = [
        ["munged", "--foreground", "--force", f"--key-file={folder}/munge.key", *munge],
        ["slurmctld", "-D", "-c"],
        ["slurmd", "-D"],
    ]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("w"))
        for command in commands:
            daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            if command[0] == "munged":
                wait_for((folder / "munge.socket").exists, SECONDS)
        words = {"env": environment, "capture_output": True, "text": True}
        ask = ["sinfo", "-h", "-o", "%T"]
        wait_for(lambda: "idle" in subprocess.run(ask, **words).stdout, SECONDS)
        yield environment


@pytest.fixture
def call(lab, slurm):
    """Runs a command in a checkout whose programs measure nothing: a row for each model."""
    shutil.copytree(ROOT / "claims", lab / "claims")
    program(lab / "build/gpu/bin/bench", MEASURED)
    for model in MODELS:
        rows = [made.record(made.forward_pass(model, 2), "branch_tree", [10.0, 11.0, 12.0])]
        content = made.results("mine", "one", rows, provenance=made.provenance(commit="a" * 40))
        (lab / f"template-{model}.json").write_text(json.dumps(content))
    environment = slurm | {"XDG_RUNTIME_DIR": str(lab.parent)}
    environment |= {"REPROLAB_COMMIT": "a" * 40, "REPROLAB_DIRTY": "0"}

    def run(*command):
        words = {"env": environment, "capture_output": True, "text": True, "timeout": SECONDS}
        done = subprocess.run(command, cwd=lab, **words)
        logs = "".join(file.read_text() for file in lab.glob("slurm-*.out"))
        assert done.returncode == 0, f"{done.stderr}\n{logs}"
        return done.stdout.strip()

    return run


def task(number):
    """A task with its own GPU."""
    return f"reproduce-mine PRESET=gpu MODEL={MODELS[number]} CUDA_VISIBLE_DEVICES={number}"


def models(file):
    return [row["problem"]["model"] for row in json.loads(file.read_text())["records"]]


def test_the_tasks_of_an_array_are_merged_and_failures_reported(lab, call):
    """Quotes in a task are as in a shell."""
    submit = ["sbatch", "--parsable", "--array=1-5", "scripts/slurm", "a run"]
    job = call(*submit, task(0), "reproduce-nothing", task(1), "help DRY_RUN='1'")
    wait_for(lambda: not call("squeue", "-h"), SECONDS)
    for number, status in enumerate((0, 2, 0, 0, 2), 1):
        assert f"ExitCode={status}:0" in call("scontrol", "show", "job", f"{job}_{number}")
    for name in ("one", "two", "three"):
        assert models(lab / f"a run/merged/nvidia-h200/mine/{name}.json") == list(MODELS)
    assert sorted(file.name for file in (lab / "a run/tasks").iterdir()) == ["1", "3"]
    logs = {i: (lab / f"slurm-{job}_{i}.out").read_text() for i in range(1, 6)}
    assert "No rule to make target 'reproduce-nothing'" in logs[2]
    assert "render-recorded" in logs[4]
    assert logs[5] == "slurm: there are 4 tasks, from 1, but --array has 5\n"


def test_a_killed_and_requeued_task_continues(lab, call):
    (lab / "hang-two").touch()
    submit = ["sbatch", "--parsable", "--array=2", "scripts/slurm", "run"]
    job = call(*submit, task(0), task(1))
    here = lab / "run/tasks/2"
    started = here / "began"
    wait_for(lambda: started.exists() and "two" in started.read_text(), SECONDS)
    call("scontrol", "requeue", f"{job}_2")
    wait_for(lambda: call("squeue", "-h", "-o", "%T") == "PENDING", SECONDS)
    assert [name for name, _ in began(here)] == ["one", "two"]
    assert (here / "mine/one.json").exists() and not (lab / "run/merged").exists()
    (lab / "hang-two").unlink()
    call("scontrol", "update", f"JobId={job}_2", "StartTime=now")  # not in two minutes
    wait_for(lambda: not call("squeue", "-h"), SECONDS)
    assert [name for name, _ in began(here)] == ["two", "three"]
    log = (lab / f"slurm-{job}_2.out").read_text()
    assert "one: was measured before: run/tasks/2/mine/one.json\n" in log
    assert models(lab / "run/merged/nvidia-h200/mine/two.json") == [MODELS[1]]
