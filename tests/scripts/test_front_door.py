"""What users hand to `make`, and the set-up: nothing of it is shell text, and faults are one line.

Everything runs in a copy of the front door, with stand-ins for the compiled programs.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Prints its arguments, one per line.
ECHO = '#!/bin/sh\nprintf "<%s>\\n" "$@"\n'


@pytest.fixture
def checkout(tmp_path):
    """Makefile and scripts/, with programs that print their arguments and need no building."""
    folder = tmp_path / "a checkout's folder; $(x)"
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    for name in ("Makefile", "requirements.txt"):
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


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def own_environment():
    """As if these tests had not been started by a make of this project."""
    of_make = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "REPROLAB_LOCKED", "HAS_GPU"}
    given = {"FILE", "EXPERIMENT", "KERNEL", "PROBLEM", "PEER", "METRICS", "CLOCKS", "CHIP"}
    given |= {"DRY_RUN", "ARCH", "FUNCTION"}
    given |= {"MODEL", "BATCH", "BATCHES", "KERNELS", "TOKENS", "PROMPTS", "GPUS", "QUICK"}
    given |= {"PRESET", "RESULTS", "RECORDED"}
    return {k: v for k, v in os.environ.items() if k not in of_make | given}


def run(folder, *command, **environment):
    environment = own_environment() | environment
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def make(folder, *arguments, **environment):
    return run(folder, "make", "PRESET=cpu", *arguments, **environment)


HOSTILE = [
    'x"; echo INJECTED; "',
    "$(shell touch injected)",
    "$(touch injected)`touch injected`",
    "a b  c",
    "it's #1: 50 % of $HOME; $$ $| \\ *",
    "--help",
    "a\nb",
    "=",
]


@pytest.mark.parametrize("value", HOSTILE)
def test_what_a_user_gives_reaches_the_program_as_it_is(checkout, value):
    done = make(checkout, "verify", f"FILE={value}", f"KERNEL={value}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"<--kernel>\n<{value}>\n<-->\n<{value}>\n"
    assert not list(checkout.rglob("injected"))
    done = make(checkout, "verify", FILE=value)
    assert done.stdout == f"<-->\n<{value}>\n"


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_given_to_sass_reaches_it_as_it_is(checkout, value):
    given = [f"KERNEL={value}", f"ARCH={value}", f"FUNCTION={value}"]
    done = make(checkout, "sass", *given)
    wanted = [f"--kernel={value}", f"--arch={value}", f"--function={value}"]
    lines = "".join(f"<{word}>\n" for word in ["-m", "sass", "show", *wanted])
    assert (done.returncode, done.stdout) == (0, lines)
    done = make(checkout, "sass", f"RESULTS={value}")
    assert done.stdout == f"<-m>\n<sass>\n<facts>\n<--output={value}/counters/sass.json>\n"
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_given_to_profile_reaches_it_as_it_is(checkout, value):
    # As on a machine with a GPU, of which make asks the file system.
    where = {"BIN": "build/gpu/bin", "RESULTS": "results"}
    names = ("EXPERIMENT", "KERNEL", "PROBLEM")
    options = [f"--{name.lower()}={value}" for name in names] + ["--peer", value]
    places = ["--programs=build/gpu/bin", "--results=results/profile"]
    given = dict.fromkeys(names, value) | {"PEER": value}
    (checkout / value).touch()  # a peer is one path, whatever is in it
    for command in ("profile", "check"):
        done = run(checkout, "scripts/profile", command, **where, **given)
        lines = "".join(f"<{word}>\n" for word in ["-m", "ncu", command, *options, *places])
        assert (done.returncode, done.stdout) == (0, lines)
    done = run(checkout, "scripts/profile", "check", **where, PEER="")
    assert done.stdout == "".join(f"<{w}>\n" for w in ["-m", "ncu", "check", *places])
    assert not list(checkout.rglob("injected"))


def test_make_hands_what_to_profile_on_as_data(checkout):
    program(checkout / "scripts/profile", '#!/bin/sh\nprintf "<%s>\\n" "$EXPERIMENT" "$PROBLEM"\n')
    value = "$(shell touch injected)$x"
    given = [f"EXPERIMENT={value}", f"PROBLEM={value}", "PRESET=gpu"]
    for target in ("profile", "profile-check"):
        done = run(checkout, "make", target, *given)
        assert (done.returncode, done.stdout) == (0, f"<{value}>\n" * 2)
    assert not list(checkout.rglob("injected"))


def test_profile_needs_to_know_what_and_a_gpu(checkout):
    for given in ({}, {"EXPERIMENT": "table2"}, {"KERNEL": "shared_lut"}):
        done = run(checkout, "scripts/profile", PEER="", **given)
        assert done.returncode == 2
        assert done.stderr == (
            "profile: say what: make profile EXPERIMENT=table2 KERNEL=shared_lut\n"
        )
    for target in ("profile", "profile-check"):
        done = make(checkout, target)
        assert done.stderr.startswith(f"{target}: nothing to profile: ")


def test_peers_are_one_path_or_several(checkout):
    (checkout / "a peer's.so").touch()
    for given, taken in [
        ("a peer's.so", ["a peer's.so"]),
        ("name=a peer's.so", ["name=a peer's.so"]),
        ("one.so two=$x.so\n*", ["one.so", "two=$x.so", "*"]),
        ("  ", []),
    ]:
        wanted = "".join(f"<--peer>\n<{peer}>\n" for peer in taken)
        assert make(checkout, "verify", "FILE=x", f"PEER={given}").stdout == f"{wanted}<-->\n<x>\n"
        done = make(checkout, "reproduce-mine", f"PEER={given}", "RECORDED=nowhere")
        assert f"{wanted}<--brief>\n" in done.stdout


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ("", "streaming|x*"),
        ("lib/one.so", "streaming|x*|bitsandbytes*"),
        ("old=a.so new=/b=/c&.so ./d=.so", "streaming|x*|old|new|bitsandbytes*"),
    ],
)
def test_peers_are_selected_beside_named_kernels(checkout, given, pattern):
    passes = checkout / "experiments/mine/passes"
    passes.write_text("check verify --kernel streaming|x*{|peers} {peers}\n")
    (checkout / "x*").touch()  # nothing is taken for a file's name
    done = make(checkout, "reproduce-mine", f"PEER={given}", "RECORDED=nowhere")
    assert f"<--kernel>\n<{pattern}>\n" in done.stdout


@pytest.mark.parametrize("value", [*HOSTILE, "1410"])
def test_clocks_reach_what_measures_and_nothing_else(checkout, value):
    (checkout / "experiments/mine/passes").write_text("check verify --brief\nalone bench --x\n")
    for name in ("verify", "bench"):
        program(checkout / f"build/cpu/bin/{name}", ECHO)
    assert make(checkout, "verify", "FILE=x", f"CLOCKS={value}").stdout == "<-->\n<x>\n"
    # As on a machine with a GPU, of which make asks the file system.
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "none", "MEASURE": "gpu"}
    where["PEER"] = ""
    clocks = f"<--clocks>\n<{value}>\n"
    wanted = f"<--brief>\n<--x>\n{clocks}<--experiment>\n<mine>\n<--pass>\n<alone>\n"
    done = run(checkout, "scripts/reproduce", "mine", **where, CLOCKS=value)
    assert done.stdout.startswith(wanted)
    done = run(checkout, "scripts/reproduce", "mine", **where, CLOCKS=value, DRY_RUN="1")
    assert done.stdout == f"check: verify --brief\n<--x>\n{clocks}<--dry-run>\n"
    done = run(checkout, "scripts/run", "bench", **where, CLOCKS=value)
    assert done.stdout == clocks
    assert not list(checkout.rglob("injected"))


def test_make_hands_clocks_on_as_data(checkout):
    program(checkout / "scripts/reproduce", '#!/bin/sh\nprintf "<%s>\\n" "$CLOCKS"\n')
    for value in ["$(shell touch injected)$x", "1410", ""]:
        assert make(checkout, "reproduce-mine", f"CLOCKS={value}").stdout == f"<{value}>\n"
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("value", HOSTILE)
def test_metrics_and_chip_reach_the_programs_as_they_are(checkout, value):
    program(checkout / "build/cpu/bin/metrics", ECHO)
    done = make(checkout, "metrics", f"CHIP={value}", f"METRICS={value}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"<--chip>\n<{value}>\n<--metrics>\n<{value}>\n"
    assert make(checkout, "metrics", "CHIP=GA100").stdout == "<--chip>\n<GA100>\n"
    passes = checkout / "experiments/mine/passes"
    passes.write_text("check verify --brief {metrics}\n")
    done = make(checkout, "reproduce-mine", f"METRICS={value}", "RECORDED=nowhere")
    assert f"<--brief>\n<--metrics>\n<{value}>\n" in done.stdout
    done = make(checkout, "reproduce-mine", "RECORDED=nowhere")
    assert "<--brief>\n" in done.stdout and "--metrics" not in done.stdout
    assert not list(checkout.rglob("injected"))


CHOSEN = ("MODEL", "BATCHES", "KERNELS", "TOKENS", "PROMPTS", "GPUS")


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_chosen_of_a_run_reaches_it_as_it_is(checkout, value):
    passes = checkout / "experiments/mine/passes"
    passes.write_text("check verify {chosen}\nsteps python -m steps {chosen}\n")
    given = [f"{name}={value}" for name in CHOSEN]
    wanted = "".join(f"<--{name.lower()}>\n<{value}>\n" for name in CHOSEN)
    done = make(checkout, "reproduce-mine", *given, "QUICK=1", "RECORDED=nowhere")
    assert f"{wanted}<--quick>\n" in done.stdout
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "none", "MEASURE": "gpu"}
    where |= dict.fromkeys(CHOSEN, value) | {"PEER": ""}
    done = run(checkout, "scripts/reproduce", "mine", **where)
    assert f"<-m>\n<steps>\n{wanted}<--output>\n<results/mine/steps.json>\n" in done.stdout
    # A Python pass that can say what it would run does so.
    done = run(checkout, "scripts/reproduce", "mine", **where, DRY_RUN="1")
    assert done.stdout.endswith(f"<-m>\n<steps>\n{wanted}<--dry-run>\n")
    assert not list(checkout.rglob("injected"))


def test_quick_that_is_off_is_none(checkout):
    (checkout / "experiments/mine/passes").write_text("check verify {chosen} --end\n")
    for value in ("", "0", "no"):
        done = make(checkout, "reproduce-mine", f"QUICK={value}", "RECORDED=nowhere")
        assert "--quick" not in done.stdout and "<--end>\n" in done.stdout


def test_table_1_and_figure_4_are_one_run(checkout):
    folder = checkout / "experiments/end_to_end"
    folder.mkdir()
    (folder / "passes").write_text("timing python -m experiments.end_to_end timing\n")
    (folder / "requirements.txt").touch()
    for target in ("reproduce-table1", "reproduce-figure4"):
        done = make(checkout, target, "RECORDED=nowhere")
        assert done.returncode == 2
        said = done.stderr.splitlines()[0]
        assert said.startswith("reproduce-end_to_end: ")
        assert said.endswith(", and there is no recorded run of it in nowhere yet")
        assert done.stdout == ""


def test_advise_needs_a_gpu(checkout):
    done = make(checkout, "advise", "MODEL=x")
    assert done.stderr.startswith("advise: nothing to measure: ")


@pytest.fixture
def advising(checkout):
    """A checkout whose programs say what they are given, as on a machine with a GPU."""
    (checkout / "experiments/end_to_end").mkdir()
    (checkout / "experiments/end_to_end/requirements.txt").touch()
    program(checkout / "echo", ECHO)
    names = "mkdir -p build/end_to_end; echo ./echo >build/end_to_end/python"
    program(checkout / "scripts/end_to_end", f"#!/bin/sh\n{names}\n")
    program(checkout / "scripts/dropin", "#!/bin/sh\necho built\n")
    return checkout


@pytest.mark.parametrize("value", HOSTILE)
def test_advise_builds_what_it_needs_whatever_is_dry(advising, value):
    for dry in ([], ["DRY_RUN=1"]):
        given = ["PRESET=gpu", f"MODEL={value}", f"BATCH={value}", *dry]
        done = run(advising, "make", "advise", *given)
        words = ["-m", "experiments.end_to_end.advise", f"--batch={value}", "--", value]
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "built\n" + "".join(f"<{word}>\n" for word in words)
        shutil.rmtree(advising / "build/end_to_end")
    assert not list(advising.rglob("injected"))


def test_a_dry_run_of_the_experiment_builds_nothing(advising):
    (advising / "experiments/end_to_end/passes").touch()
    done = run(advising, "make", "reproduce-table1", "PRESET=gpu", "DRY_RUN=1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (advising / "build/end_to_end").exists()


def test_the_python_with_torch_is_one_that_is_there_or_an_environment_of_its_own(checkout):
    (checkout / "experiments/end_to_end").mkdir()
    (checkout / "experiments/end_to_end/requirements.txt").write_text("torch==2.11.0\n")
    tools = checkout / "tools"
    tools.mkdir()
    path = f"{tools}:{os.environ['PATH']}"
    named = checkout / "build/end_to_end/python"
    program(tools / "python3", "#!/bin/sh\nexit 0\n")
    assert run(checkout, "scripts/end_to_end", PATH=path).returncode == 0
    assert named.read_text() == "python3\n"
    program(tools / "python3", "#!/bin/sh\necho 'no network' >&2; exit 1\n")
    done = run(checkout, "scripts/end_to_end", PATH=path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "end_to_end: installing torch==2.11.0 into build/end_to_end/environment\n"
        "end_to_end: cannot be installed: is there a network? (log: build/end_to_end.log)\n"
    )
    makes = 'mkdir -p "$last/bin"; cp "$0" "$last/bin/python"'
    serves = 'case "$0" in build/*) echo "no driver" >&2; exit "$(cat serves)";; esac; exit 1'
    cases = f'case "$*" in *venv*) {makes};; *pip*) ;; *) {serves};; esac'
    program(tools / "python3", f"#!/bin/sh\nfor last; do :; done\n{cases}\n")
    named.unlink()
    (checkout / "serves").write_text("1")
    done = run(checkout, "scripts/end_to_end", PATH=path)
    assert (done.returncode, named.exists()) == (2, False)
    said = "end_to_end: build/end_to_end/environment does not serve: no driver"
    assert done.stderr.splitlines()[1:] == [said]
    (checkout / "serves").write_text("0")
    assert run(checkout, "scripts/end_to_end", PATH=path).returncode == 0
    assert named.read_text() == "build/end_to_end/environment/bin/python\n"


@pytest.mark.parametrize(
    ("version", "serves"),
    [("5.17.0", True), ("10.0", True), ("5.18.0.dev0", True), ("5.2.1", False), ("4.99", False)],
)
def test_versions_of_transformers_are_numbers(checkout, tmp_path, version, serves):
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("accelerate", "bitsandbytes", "fastjsonschema", "numpy", "torch", "transformers"):
        (modules / f"{name}.py").write_text(f"__version__ = '{version}'\n")
    gpu = "import types\ncuda = types.SimpleNamespace(is_available=lambda: True)\n"
    (modules / "torch.py").write_text(gpu)
    program(checkout / "scripts/pinned", "#!/bin/sh\nexit 2\n")
    done = run(checkout, "scripts/end_to_end", PYTHONPATH=str(modules))
    assert (done.returncode == 0) is serves
    log = (checkout / "build/end_to_end/probe.log").read_text()
    assert log == "" if serves else log.endswith(f": transformers {version} < 5.17\n")
    assert (checkout / "build/end_to_end/python").exists() is serves


def test_bench_with_metrics_reads_counters(checkout):
    (checkout / "build/gpu/bin").mkdir(parents=True)
    program(checkout / "build/gpu/bin/bench", ECHO)
    run_bench = ["bench", "PRESET=gpu", "ARCH=90"]
    done = run(checkout, "make", *run_bench, "METRICS=a b,c")
    wanted = ["--instrument", "counters", "--metrics", "a b,c"]
    wanted += ["--output", "results/bench_counters.json"]
    wanted += ["-m", "plots", "bench", "--results", "results/bench_counters.json"]
    assert done.stdout == "".join(f"<{word}>\n" for word in wanted)
    done = run(checkout, "make", *run_bench)
    assert done.stdout.startswith("<--output>\n<results/bench.json>\n<-m>\n<plots>\n<bench>\n")


def test_a_pass_may_be_read_off_the_code_by_python(checkout):
    (checkout / "experiments/mine/passes").write_text(
        "facts python -m sass facts\nalone bench --x\n"
    )
    program(checkout / "build/cpu/bin/bench", ECHO)
    where = {"BIN": "build/cpu/bin", "RESULTS": "results", "RECORDED": "none", "MEASURE": "gpu"}
    where |= {"PEER": "", "CLOCKS": "1410"}
    done = run(checkout, "scripts/reproduce", "mine", **where)
    output = "<--output>\n<results/mine/facts.json>\n<--x>\n<--clocks>\n"
    assert done.stdout.startswith(f"<-m>\n<sass>\n<facts>\n{output}")
    assert run(checkout, "scripts/reproduce", "mine", "--programs", **where).stdout == "bench\n"
    done = run(checkout, "scripts/reproduce", "mine", **where, DRY_RUN="1")
    assert done.stdout.startswith("facts: python -m sass facts\n<--x>\n")


def test_a_dry_run_that_is_off_is_none(checkout):
    for value in ("", "0", "no"):
        assert make(checkout, "verify", "FILE=x", f"DRY_RUN={value}").stdout == "<-->\n<x>\n"
    assert make(checkout, "verify", "FILE=x", "DRY_RUN=1").stdout == "<--dry-run>\n<-->\n<x>\n"


@pytest.mark.parametrize("value", [v for v in HOSTILE if v != "--help"])
def test_folders_are_data_too(checkout, value):
    own = checkout / value
    (own / "mine").mkdir(parents=True)
    name = f"<mine>\n<--results>\n<{value}/mine>\n<--output>\n"
    assert name in make(checkout, "render", f"RESULTS={value}").stdout
    assert name in make(checkout, "render-recorded", f"RECORDED={value}").stdout
    done = make(checkout, "claims", f"RESULTS={value}")
    assert f"<--results>\n<{value}>\n<--output>\n<{value}/claims>\n" in done.stdout
    assert not list(checkout.rglob("injected"))


def test_wrong_usage_is_one_line(checkout):
    for arguments, line in [
        (["verify"], "verify: say which: make verify FILE=model.safetensors, or its folder"),
        (["verify", "PRESET=x y"], "PRESET: give one of cpu gpu all-archs asan.  Stop."),
        (["test", "PRESET=cpu $(touch x)"], "PRESET: give one of cpu gpu all-archs asan.  Stop."),
        (["render"], "render: no results yet; make reproduce-table2"),
        (
            ["sass", "KERNEL=x"],
            "sass: say for which architecture: make sass KERNEL=name ARCH=sm_80",
        ),
        (
            ["render-recorded", "RECORDED=x"],
            "render: no recorded run in x; RECORDED=<folder> names",
        ),
    ]:
        done = make(checkout, *arguments)
        assert done.returncode == 2
        assert line in done.stderr.splitlines()[0]


def test_a_second_make_waits_for_the_first(checkout):
    program(
        checkout / "build/cpu/bin/verify",
        "#!/bin/sh\nmkdir busy || echo BESIDE EACH OTHER\nsleep 0.3\nrmdir busy\n",
    )
    command = ["make", "PRESET=cpu", "verify", "FILE=x"]
    environment = own_environment()
    started = []
    for _ in range(3):
        started.append(
            subprocess.Popen(
                command,
                cwd=checkout,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        time.sleep(0.05)
    ends = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert "".join(out for out, _ in ends) == ""
    assert "waiting for another make in this folder\n" in "".join(err for _, err in ends)


@pytest.mark.parametrize("text", ["", "\n", "nowhere/python\n"])
def test_a_python_that_is_gone_is_looked_for_again(checkout, text):
    (checkout / "build/python").write_text(text)
    program(checkout / "scripts/deps", '#!/bin/sh\necho "deps $1"; echo python3 >build/python\n')
    done = make(checkout, "render-recorded", "RECORDED=x")
    assert done.stdout == "deps python\n"
    assert make(checkout, "render-recorded", "RECORDED=x").stdout == ""


def deps(folder, part, **programs):
    """Runs scripts/deps with stand-ins for programs, in front of the system's."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in programs.items():
        program(tools / name.replace("_", "."), f"#!/bin/bash\n{text}\n")
    path = f"{tools}:{os.environ['PATH']}"
    return run(folder, "scripts/deps", part, PATH=path)


# Knows its version and is too old for everything else.
OLD = '[ "$1" != --version ] || { echo Python 3.9.2; exit; }; exit 1'
# New enough, with nothing installed, and venv fails as it does without a network.
BARE = 'case "$*" in *version_info*|*ensurepip*) exit 0;; esac; echo "no network" >&2; exit 1'


def test_a_python_that_is_too_old_is_one_line(checkout):
    newer = {f"python3_{minor}": "exit 1" for minor in (11, 12, 13, 14)}
    done = deps(checkout, "python", python3=OLD, **newer)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "deps: Python 3.9.2 is too old: claims/ and plots/ need Python 3.11 or newer\n"
    )


def test_no_network_is_one_line(checkout):
    done = deps(checkout, "python", python3=BARE)
    assert done.returncode == 2
    assert done.stderr == "deps: cannot make .venv: is there a network? (log: build/deps.log)\n"
    assert (checkout / "build/deps.log").read_text() == "no network\n"


# Has all packages but NVIDIA's two.
WITHOUT_READERS = 'case "$*" in *nvidia-cuda*|*"-m venv"*) echo "no network" >&2; exit 1;; esac'


def test_the_readers_of_nvccs_code_come_from_the_toolkit_or_the_requirements(checkout, monkeypatch):
    readers = ("nvcc", "nvdisasm", "cuobjdump")
    path = [
        d for d in os.environ["PATH"].split(":") if not any(Path(d, r).exists() for r in readers)
    ]
    monkeypatch.setenv("PATH", ":".join(path))
    python = {"python3": WITHOUT_READERS}
    assert deps(checkout, "python", **python).stdout == "deps: all found\n"  # nothing to read
    done = deps(checkout, "python", **python, nvcc="exit 0")
    assert done.stderr == "deps: cannot make .venv: is there a network? (log: build/deps.log)\n"
    done = deps(checkout, "python", **python, nvdisasm="exit 0", cuobjdump="exit 0")
    assert done.stdout == "deps: all found\n"


def test_packages_that_cannot_be_installed_are_one_line(checkout):
    probe = 'case "$*" in *-S*) echo "-- missing: libfmt-dev";; esac'
    done = deps(checkout, "build", cmake=probe, **{"apt-get": "exit 1", "id": "echo 0"})
    assert done.returncode == 2
    assert done.stdout == "deps: installing libfmt-dev\n"
    assert (
        done.stderr
        == "deps: cannot install libfmt-dev: is there a network? (log: build/deps.log)\n"
    )
    done = deps(checkout, "build", cmake=probe, **{"apt-get": "exit 1", "id": "echo 1000"})
    assert done.stderr == (
        "deps: missing packages; run this, then the same make command again:\n"
        "sudo apt-get update && sudo apt-get install -y libfmt-dev\n"
    )


def test_arch_and_a_new_kernel_change_what_is_configured(checkout):
    shutil.copy(ROOT / "scripts/build", checkout / "scripts/build")
    (checkout / "CMakePresets.json").touch()
    cmake = 'case "$1" in --preset) mkdir -p build/gpu; echo "$*" >>configured;; esac'
    (checkout / "tools").mkdir()
    program(checkout / "tools/cmake", f"#!/bin/bash\n{cmake}\n")
    path = f"{checkout}/tools:{os.environ['PATH']}"
    for arch in ("90", "90", "80;90", ""):
        environment = {"PATH": path, "PRESET": "gpu", "ARCH": arch, "HAS_GPU": "yes"}
        assert run(checkout, "scripts/build", "all", **environment).returncode == 0
    assert (checkout / "configured").read_text().splitlines() == [
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=90",
        "--preset gpu -DCMAKE_CUDA_ARCHITECTURES=80;90",
    ]
    (checkout / "kernels").mkdir()
    later = time.time() + 1  # so that the file system's clock tells it apart
    os.utime(checkout / "kernels", (later, later))
    assert run(checkout, "scripts/build", **environment).returncode == 0
    assert (checkout / "configured").read_text().splitlines()[2:] == ["--preset gpu"]
    done = run(checkout, "scripts/build", "all", **environment | {"HAS_GPU": ""})
    assert done.stderr == "PRESET=gpu: no GPU here; add ARCH=90, or another architecture\n"


def test_the_drop_in_is_built_for_all_that_nvcc_has_or_for_what_is_given(checkout):
    program(checkout / "scripts/build", '#!/bin/sh\necho "$PRESET $ARCH $*"\n')
    listed = "sm_50 sm_75 sm_90 sm_90a sm_100 sm_110 sm_103"
    tools = checkout.parent / "tools"  # where make can find them, in spite of the folder's name
    tools.mkdir()
    program(tools / "nvcc", f"#!/bin/sh\nprintf '%s\\n' {listed}\n")
    path = f"{tools}:{os.environ['PATH']}"
    built = "build/dropin/libreprolab_nf4.so: built for"
    for arch, asked, said in (
        ("", "75-real;90-real;100-real;103-real;110", "75;90;100;103;110"),
        ("90", "90", "90"),
        ("80-real;90", "80-real;90", "80;90"),
        ("$(touch injected)", "$(touch injected)", "$(touch injected)"),
    ):
        done = make(checkout, "dropin", f"ARCH={arch}", PATH=path)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == f"dropin {asked} reprolab_nf4_dropin\n{built} {said}\n"
    assert not list(checkout.rglob("injected"))


def test_no_cuda_toolkit_is_one_line(checkout):
    path = [d for d in os.environ["PATH"].split(":") if not Path(d, "nvcc").exists()]
    done = run(checkout, "scripts/dropin", PATH=":".join(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "dropin: needs nvcc; install the CUDA toolkit, 12.4 or newer\n"


def test_what_runs_ends_with_the_make_that_runs_it(checkout):
    program(checkout / "build/cpu/bin/verify", "#!/bin/sh\necho $$ >started\nexec sleep 60\n")
    command = ["make", "PRESET=cpu", "reproduce-mine"]
    with subprocess.Popen(command, cwd=checkout, env=own_environment()) as running:
        while not (checkout / "started").exists() or not (checkout / "started").read_text():
            time.sleep(0.01)
        status = Path("/proc", (checkout / "started").read_text().strip(), "status")
        running.terminate()
    ended = time.monotonic() + 10
    while status.exists() and "(zombie)" not in status.read_text():
        assert time.monotonic() < ended, "the program runs on"
        time.sleep(0.01)
