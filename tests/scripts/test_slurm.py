"""A job array on a Slurm of the test's own, on this machine: no cluster is asked for anything."""

import getpass
import json
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack

import made
import pytest
from front_door import MEASURED, ROOT, began, own_environment, program

DAEMONS = ("munged", "slurmctld", "slurmd")
MISSING = [
    name for name in ("sbatch", *DAEMONS) if not shutil.which(name, path="/usr/sbin:/usr/bin")
]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"no {', '.join(MISSING)} here: apt-get install slurm-wlm munge"
)
MODELS = ("gemma-2-27b", "qwen3-32b", "llama-3.3-70b")
SECONDS = 120  # in which an array of tasks that do nothing ends on a busy machine
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


def wait_until(holds, what):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {SECONDS} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """The environment of its commands; the node has four CPUs, whatever this machine has."""
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
                wait_until((folder / "munge.socket").exists, "munged")
        words = {"env": environment, "capture_output": True, "text": True}
        idle = lambda: "idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], **words).stdout  # noqa: E731
        wait_until(idle, f"Slurm (log: {folder}/log)")
        yield environment


@pytest.fixture
def call(lab, slurm):
    """Runs a command in a checkout whose programs measure nothing: a row for each model."""
    shutil.copytree(ROOT / "claims", lab / "claims")
    shutil.copytree(lab / "experiments/mine", lab / "experiments/other")
    (lab / "build/gpu/bin").mkdir(parents=True)
    program(lab / "build/gpu/bin/bench", MEASURED)
    for model in MODELS:
        rows = [made.record(made.forward_pass(model, 2), "branch_tree", [10.0, 11.0, 12.0])]
        content = made.results("mine", "one", rows, provenance=made.provenance(commit="a" * 40))
        (lab / f"template-{model}.json").write_text(json.dumps(content))
    environment = slurm | {"XDG_RUNTIME_DIR": str(lab.parent)}
    environment |= {"REPROLAB_COMMIT": "a" * 40, "REPROLAB_DIRTY": "0"}

    def run(*command, status=0):
        words = {"env": environment, "capture_output": True, "text": True, "timeout": SECONDS}
        done = subprocess.run(command, cwd=lab, **words)
        logs = "".join(file.read_text() for file in lab.glob("slurm-*.out"))
        assert done.returncode == status, f"{done.stderr}\n{logs}"
        return done.stdout.strip()

    return run


def tasks():
    """Each on a GPU of its own."""
    given = enumerate(MODELS)
    return [f"reproduce-mine PRESET=gpu MODEL={m} CUDA_VISIBLE_DEVICES={i}" for i, m in given]


def models(file):
    return [row["problem"]["model"] for row in json.loads(file.read_text())["records"]]


def test_four_tasks_of_an_array_end_merged(lab, call):
    dry = "reproduce-mine PRESET=cpu DRY_RUN='1'"
    call("sbatch", "--wait", "--array=1-4", "scripts/slurm", "a run", *tasks(), dry)
    for name in ("one", "two", "three"):
        assert models(lab / f"a run/merged/nvidia-h200/mine/{name}.json") == list(MODELS)
    assert sorted(file.name for file in (lab / "a run/tasks").iterdir()) == ["1", "2", "3"]
    (log,) = lab.glob("slurm-*_4.out")
    assert "render the recorded run" in log.read_text() or "show nothing" in log.read_text()
    assert len(list(lab.glob("slurm-*.out"))) == 4


def test_a_task_that_is_killed_and_requeued_goes_on_where_it_was(lab, call):
    (lab / "hang-two").touch()
    submit = ["sbatch", "--parsable", "--array=2", "scripts/slurm", "run"]
    job = call(*submit, *tasks())
    here = lab / "run/tasks/2"
    started = here / "began"
    wait_until(lambda: started.exists() and "two" in started.read_text(), "the second pass")
    call("scontrol", "requeue", f"{job}_2")
    wait_until(lambda: call("squeue", "-h", "-o", "%T") == "PENDING", "the end of the killed task")
    assert [name for name, _ in began(here)] == ["one", "two"]
    assert (here / "mine/one.json").exists() and not (lab / "run/merged").exists()
    (lab / "hang-two").unlink()
    call("scontrol", "update", f"JobId={job}_2", "StartTime=now")  # not in two minutes
    wait_until(lambda: not call("squeue", "-h"), "the requeued task")
    assert [name for name, _ in began(here)] == ["two", "three"]
    log = (lab / f"slurm-{job}_2.out").read_text()
    assert "one: was measured before: run/tasks/2/mine/one.json\n" in log
    assert models(lab / "run/merged/nvidia-h200/mine/two.json") == [MODELS[1]]


def test_a_task_that_fails_is_told_and_the_others_are_merged(lab, call):
    submit = ["sbatch", "--wait", "--parsable", "--array=1-3", "scripts/slurm", "run"]
    job = call(*submit, tasks()[0], "reproduce-nothing", status=2)
    assert models(lab / "run/merged/nvidia-h200/mine/one.json") == [MODELS[0]]
    log = (lab / f"slurm-{job}_2.out").read_text()
    assert "No rule to make target 'reproduce-nothing'" in log
    log = (lab / f"slurm-{job}_3.out").read_text()
    assert log == "slurm: there are 2 tasks, from 1, but --array has 3\n"
