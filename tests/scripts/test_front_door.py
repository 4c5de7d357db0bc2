"""What users hand to `make`: nothing of it is shell text, and faults are one line."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from front_door import ECHO, HOSTILE, ROOT, declare, make, own_environment, program, reproduce, run


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
    folder = "./" * value.startswith("-") + value
    assert done.stdout == f"<-m>\n<sass>\n<facts>\n<--output={folder}/counters/sass.json>\n"
    assert not list(checkout.rglob("injected"))


def profile(checkout, target, **given):
    """As on a machine with a GPU, of which make asks the file system."""
    words = [f"{name}={value}" for name, value in given.items()]
    return run(checkout, "make", target, "PRESET=gpu", *words)


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_given_to_profile_reaches_it_as_it_is(checkout, value):
    names = ("EXPERIMENT", "KERNEL", "PROBLEM")
    options = [f"--{name.lower()}={value}" for name in names] + ["--peer", value]
    places = ["--programs=build/gpu/bin", "--results=results/profile"]
    given = dict.fromkeys(names, value) | {"PEER": value}
    (checkout / value).touch()  # a peer is one path, whatever is in it
    for target, command in (("profile", "profile"), ("profile-check", "check")):
        done = profile(checkout, target, **given)
        lines = "".join(f"<{word}>\n" for word in ["-m", "ncu", command, *options, *places])
        assert (done.returncode, done.stdout) == (0, lines)
    done = profile(checkout, "profile-check")
    assert done.stdout == "".join(f"<{w}>\n" for w in ["-m", "ncu", "check", *places])
    assert not list(checkout.rglob("injected"))


def test_profile_needs_to_know_what_and_a_gpu(checkout):
    for given in ({}, {"EXPERIMENT": "table2"}, {"KERNEL": "shared_lut"}):
        done = profile(checkout, "profile", **given)
        assert done.returncode == 2
        said = "profile: say what: make profile EXPERIMENT=table2 KERNEL=shared_lut\n"
        assert done.stderr.startswith(said)
    for target in ("profile", "profile-check"):
        done = make(checkout, target)
        assert done.stderr.startswith(f"{target}: nothing to profile: ")


def test_peers_are_one_path_or_several(checkout):
    declare(checkout, takes=["PEER"], check="verify --brief", one="bench")
    (checkout / "a peer's.so").touch()
    for given, taken in [
        ("a peer's.so", ["a peer's.so"]),
        ("name=a peer's.so", ["name=a peer's.so"]),
        ("one.so two=$x.so\n*", ["one.so", "two=$x.so", "*"]),
        ("  ", []),
    ]:
        wanted = "".join(f"<--peer>\n<{peer}>\n" for peer in taken)
        assert make(checkout, "verify", "FILE=x", f"PEER={given}").stdout == f"{wanted}<-->\n<x>\n"
        assert f"<--brief>\n{wanted}" in reproduce(checkout, PEER=given).stdout


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ("", "streaming|x*"),
        ("lib/one.so", "streaming|x*|bitsandbytes*"),
        ("old=a.so new=/b=/c&.so ./d=.so", "streaming|x*|old|new|bitsandbytes*"),
    ],
)
def test_peers_are_selected_beside_named_kernels(checkout, given, pattern):
    declare(checkout, also='kernels = ["streaming", "x*"]', takes=["PEER"], one="bench")
    (checkout / "x*").touch()  # nothing is taken for a file's name
    assert f"<--kernel>\n<{pattern}>\n" in reproduce(checkout, PEER=given).stdout


@pytest.mark.parametrize("value", [*HOSTILE, "1410"])
def test_clocks_reach_what_measures_and_nothing_else(checkout, value):
    assert make(checkout, "verify", "FILE=x", f"CLOCKS={value}").stdout == "<-->\n<x>\n"
    clocks = f"<--clocks>\n<{value}>\n"
    wanted = f"<--brief>\n<--x>\n{clocks}<--experiment>\n<mine>\n<--pass>\n<one>\n"
    assert reproduce(checkout, CLOCKS=value).stdout.startswith(wanted)
    done = reproduce(checkout, CLOCKS=value, DRY_RUN="1")
    assert done.stdout == f"check: verify --brief\n<--x>\n{clocks}<--dry-run>\n"
    done = run(checkout, "scripts/run", "bench", BIN="build/cpu/bin", PEER="", CLOCKS=value)
    assert done.stdout == clocks
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("value", HOSTILE)
def test_metrics_and_chip_reach_the_programs_as_they_are(checkout, value):
    program(checkout / "build/cpu/bin/metrics", ECHO)
    done = make(checkout, "metrics", f"CHIP={value}", f"METRICS={value}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"<--chip>\n<{value}>\n<--metrics>\n<{value}>\n"
    assert make(checkout, "metrics", "CHIP=GA100").stdout == "<--chip>\n<GA100>\n"
    declare(checkout, takes=["METRICS"], check="verify --brief", one="bench")
    done = reproduce(checkout, METRICS=value)
    assert f"<--brief>\n<--metrics>\n<{value}>\n" in done.stdout
    done = reproduce(checkout)
    assert "<--brief>\n" in done.stdout and "--metrics" not in done.stdout
    assert not list(checkout.rglob("injected"))


def test_one_kernel_is_tested_by_what_bears_its_name(checkout):
    (checkout / "kernels/transpose").mkdir(parents=True)
    (checkout / "kernels/transpose/mine.cu").touch()
    (checkout / "build/gpu/bin").mkdir(parents=True)
    program(checkout / "build/gpu/bin/bench", ECHO)
    program(checkout / "scripts/build", '#!/bin/sh\necho "build $*"\n')
    tools = checkout.parent / "tools"
    tools.mkdir()
    program(tools / "ctest", ECHO)
    path = f"{tools}:{os.environ['PATH']}"
    done = run(checkout, "make", "test", "PRESET=gpu", "KERNEL=mine", PATH=path)
    first, *words = done.stdout.splitlines()
    assert first == "build kernels_test transpose_kernels_test bench"
    assert r"</mine$|KernelFiles\..*/transpose$>" in words
    for kernel in (*HOSTILE, "*", "m*"):
        done = run(checkout, "make", "test", "PRESET=gpu", f"KERNEL={kernel}", PATH=path)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("test: there is no kernels/*/")
    assert make(checkout, "test", "KERNEL=mine").stderr.startswith("test: of a kernel alone, ")
    assert not list(checkout.rglob("injected"))


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
    declare(checkout, facts="python -m sass facts", one="bench --x")
    done = reproduce(checkout, CLOCKS="1410")
    output = "<--output>\n<results/mine/facts.json>\n<--x>\n<--clocks>\n"
    assert done.stdout.startswith(f"<-m>\n<sass>\n<facts>\n{output}")
    programs = ["scripts/python", "-m", "experiments", "programs", "mine"]
    assert run(checkout, *programs, MEASURE="gpu").stdout == "bench\n"
    done = reproduce(checkout, DRY_RUN="1")
    assert done.stdout.startswith("facts: python -m sass facts\n<--x>\n")


def test_a_dry_run_that_is_off_is_none(checkout):
    for value in ("", "0", "no"):
        assert make(checkout, "verify", "FILE=x", f"DRY_RUN={value}").stdout == "<-->\n<x>\n"
    assert make(checkout, "verify", "FILE=x", "DRY_RUN=1").stdout == "<--dry-run>\n<-->\n<x>\n"


@pytest.mark.parametrize("value", HOSTILE[1:])
def test_folders_are_data_too(checkout, value):
    own = checkout / value
    (own / "mine").mkdir(parents=True)
    name = f"<mine>\n<--results>\n<{value}/mine>\n<--output>\n"
    assert name in make(checkout, "render", f"RESULTS={value}").stdout
    assert name in make(checkout, "render-recorded", f"RECORDED={value}").stdout
    page = f"<--results={value}>\n<--output>\n<{value}/report.html>\n"
    assert page in make(checkout, "report", f"RESULTS={value}").stdout
    done = make(checkout, "claims", f"RESULTS={value}")
    assert f"<--results>\n<{value}>\n<--output>\n<{value}/claims>\n" in done.stdout
    assert not list(checkout.rglob("injected"))


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_compared_is_data_too(checkout, value):
    names = ("A", "B", "THRESHOLD", "OUT")
    done = make(checkout, "compare", *(f"{name}={value}" for name in names))
    options = [f"--a={value}", f"--b={value}", f"--output={value}", f"--threshold={value}"]
    words = ["-m", "plots", "compare", *options]
    assert (done.returncode, done.stdout) == (0, "".join(f"<{word}>\n" for word in words))
    done = make(checkout, "compare", "A=x", "B=y", "RESULTS=mine", "VERBOSE=1")
    words = ["-m", "plots", "compare", "--a=x", "--b=y", "--output=mine/compare", "--verbose"]
    assert done.stdout == "".join(f"<{word}>\n" for word in words)
    assert not list(checkout.rglob("injected"))


def test_claims_are_decided_by_the_folder_that_was_named(checkout):
    """The usual folder may be missing before the first run; a wrong name is not passed over."""
    recorded = "<-m>\n<plots>\n<claims>\n<--results>\n<data/recorded>\n"
    assert make(checkout, "claims").stdout == f"{recorded}<--output>\n<results/claims>\n"
    done = make(checkout, "claims", "RESULTS=typo")
    assert done.stdout == f"{recorded}<--results>\n<typo>\n<--output>\n<typo/claims>\n"


def test_what_is_given_for_measuring_is_not_used_where_nothing_is(checkout):
    declare(checkout, takes=["PEER", "MODEL", "QUICK"], check="verify --brief", one="bench")
    (checkout / "recorded/mine").mkdir(parents=True)
    given = ["PEER=nowhere.so", "CLOCKS=nope", "MODEL=m", "QUICK=1", "RECORDED=recorded"]
    for dry in ([], ["DRY_RUN=1"]):
        done = make(checkout, "reproduce-mine", *given, *dry)
        assert done.returncode == 0
        assert ". Not used: PEER CLOCKS MODEL QUICK. " in done.stdout.splitlines()[0]
        assert "nowhere.so" not in done.stdout
    assert "Not used" not in make(checkout, "reproduce-mine", given[-1]).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pass", "is not TOML: "),
        ("", "the file lacks 'pass' (see data/experiment.schema.json)"),
        ('[pass.one]\nprogram = "x"\ntake = []\n', "pass.one has 'take', which it must not have"),
        (
            '[pass.one]\nprogram = "x"\ntakes = ["HOME"]\n',
            "pass.one.takes[0] must be one of PEER, ",
        ),
        ('[pass.one]\nprogram = "../x"\n', "pass.one.program must match pattern "),
        ('[pass.one]\nprogram = "x"\nmodule = "y"\n', "pass.one: needs a program or a module, and"),
        ('[pass.one]\nlike = "two"\n[pass.two]\nprogram = "x"\n', "pass.one: is like 'two', which"),
    ],
)
def test_an_experiment_that_is_none_is_one_line(checkout, text, said):
    (checkout / "experiments/mine/experiment.toml").write_text(text)
    done = reproduce(checkout)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"experiments/mine/experiment.toml: {said}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_pass_that_is_like_another_says_what_differs(checkout):
    also = 'kernels = ["a", "b"]\noptions = { x = 1, warm = true, shape = ["2x2", "3x3"] }'
    declare(checkout, also=also, one="bench --first")
    with (checkout / "experiments/mine/experiment.toml").open("a") as file:
        file.write('[pass.two]\nlike = "one"\nall_but = ["c", "d"]\noptions.x = "2.5"\n')
    one, two = reproduce(checkout).stdout.split("<--first>\n")[1:]
    options = "<--x>\n<{}>\n<--warm>\n<--shape>\n<2x2>\n<--shape>\n<3x3>\n<--kernel>\n<{}>\n"
    assert one.startswith(options.format("1", "a|b"))
    assert two.startswith(options.format("2.5", "!c|d"))


def test_a_check_is_announced_where_there_is_one(checkout):
    (checkout / "recorded/mine").mkdir(parents=True)
    for check, words in [({"check": "verify"}, "The CPU check, and a"), ({}, "A")]:
        declare(checkout, **check, one="bench")
        said = make(checkout, "reproduce-mine", "RECORDED=recorded").stdout.splitlines()[0]
        assert said.endswith(f". {words} recorded run:")


def test_wrong_usage_is_one_line(checkout):
    for arguments, line in [
        (["verify"], "verify: say which: make verify FILE=model.safetensors, or its folder"),
        (["verify", "PRESET=x y"], "PRESET: give one of cpu gpu all-archs asan.  Stop."),
        (["test", "PRESET=cpu $(touch x)"], "PRESET: give one of cpu gpu all-archs asan.  Stop."),
        (["render"], "render: no results yet; make reproduce-table2"),
        (["compare", "A=x"], "compare: say which: make compare A=results B=data/recorded/h200"),
        (
            ["report", "RESULTS=x y"],
            r"report: no results in x\ y; make reproduce-table2, or RESULTS=",
        ),
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


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({}, {}, "waiting for another make that writes to results\n"),
        ({}, {"RESULTS": "other"}, ""),
        ({"PRESET": "gpu"}, {"RESULTS": "other"}, ""),  # which measures nothing
        (
            {"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3,1"},
            {"PRESET": "gpu", "RESULTS": "other", "CUDA_VISIBLE_DEVICES": "3"},
            "waiting for another measurement on GPU 3\n",
        ),
        ({"PRESET": "gpu", "CUDA_VISIBLE_DEVICES": "3"}, {"PRESET": "gpu", "RESULTS": "other"}, ""),
    ],
)
def test_makes_run_beside_each_other_unless_they_share_results_or_a_gpu(
    checkout, first, second, said
):
    """Each ends when the other has begun, or after a moment if it has to wait for that."""
    (checkout / "build/gpu/bin").mkdir(parents=True)
    text = "#!/bin/sh\ntouch begun$$\nfor i in $(seq 30); do\n"
    text += "[ $(ls -d begun* | wc -l) = 1 ] || exit 0\nsleep 0.1\ndone\nrm begun$$\n"
    for preset in ("cpu", "gpu"):
        program(checkout / f"build/{preset}/bin/verify", text)
    environment = own_environment() | {"XDG_RUNTIME_DIR": str(checkout.parent)}
    started = []
    for given in (first, second):
        words = [f"{name}={value}" for name, value in ({"PRESET": "cpu"} | given).items()]
        command = ["make", "verify", "FILE=x", *words]
        pipes = {"stdout": -1, "stderr": -1, "text": True}
        started.append(subprocess.Popen(command, cwd=checkout, env=environment, **pipes))
        while not list(checkout.glob("begun*")):
            time.sleep(0.01)
    ends = [process.communicate() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert ("".join(out for out, _ in ends), "".join(err for _, err in ends)) == ("", said)
    assert bool(list(checkout.glob("begun*"))) is not bool(said)  # whether one saw the other


def test_nothing_is_removed_between_the_steps_of_another_make(checkout):
    program(checkout / "scripts/build", "#!/bin/sh\ntouch started\nsleep 0.5\n")
    command = ["make", "PRESET=cpu", "verify", "FILE=x"]
    with subprocess.Popen(command, cwd=checkout, env=own_environment(), stdout=-1) as first:
        while not (checkout / "started").exists():
            time.sleep(0.01)
        removed = make(checkout, "clean")
        assert (first.communicate()[0], first.returncode) == (b"<-->\n<x>\n", 0)
    said = "waiting for another make in this folder\n"
    assert (removed.returncode, removed.stderr) == (0, said)
    assert not (checkout / "build").exists()


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


def test_a_ctrl_c_waits_for_the_program_and_says_nothing(checkout):
    """Which has clocks to give back."""
    text = "#!/bin/sh\ntrap 'sleep 0.2; echo gave back; exit 130' INT\ntouch started\n"
    text += "while :; do sleep 0.05; done\n"
    program(checkout / "build/cpu/bin/verify", text)
    command = ["scripts/python", "-m", "experiments", "reproduce", "mine"]
    environment = own_environment() | {"BIN": "build/cpu/bin", "RESULTS": "results"}
    pipes = {"stdout": -1, "stderr": -1, "text": True, "start_new_session": True}
    running = subprocess.Popen(command, cwd=checkout, env=environment, **pipes)
    while not (checkout / "started").exists():
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=20)
    assert (running.returncode, out.splitlines()[1:], err) == (130, ["gave back"], "")


def test_cdpath_leads_no_command_into_another_folder(checkout, tmp_path):
    """`cd scripts/..` goes where CDPATH finds a folder scripts first."""
    other = tmp_path / "other"
    (other / "scripts").mkdir(parents=True)
    (other / "build").mkdir()
    (other / "build/kept").touch()
    done = make(checkout, "sass", "KERNEL=x", "ARCH=90", CDPATH=str(other))
    assert done.stdout.startswith("<-m>\n<sass>\n<show>\n")
    done = make(checkout, "clean", CDPATH=str(other), GLOBIGNORE="*")
    assert (done.returncode, done.stderr) == (0, "")
    assert (other / "build/kept").exists() and not (checkout / "build/cpu").exists()


def test_our_modules_are_found_whatever_pythons_path(checkout):
    shutil.copy(ROOT / "scripts/python", checkout / "scripts")
    (checkout / "plots.py").write_text("print('found')")
    assert make(checkout, "list", PYTHONSAFEPATH="1").stdout.startswith("found\n")
    done = run(checkout, "scripts/python", "-m", "plots", PYTHONSAFEPATH="1")
    assert (done.stdout, done.stderr) == ("found\n", "")


@pytest.mark.parametrize(
    "given, said",
    [
        ("DRYRUN=1", "DRYRUN: no such variable; did you mean DRY_RUN? (make help lists them)"),
        ("resluts=x", "resluts: no such variable; did you mean RESULTS? (make help lists them)"),
        ("x'y=1", "xy: no such variable (make help lists them)"),
    ],
)
def test_a_variable_that_there_is_none_of_is_an_error(checkout, given, said):
    done = make(checkout, "clean", given)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
    assert make(checkout, "help", "DRY_RUN=1").returncode == 0


def test_a_report_of_several_folders(checkout):
    (checkout / "a").mkdir()
    wanted = "<--results=a>\n<--results=b>\n<--output>\n<a/report.html>\n"
    assert wanted in make(checkout, "report", "RESULTS=a b").stdout


def test_a_gpu_is_recorded_by_a_name(checkout):
    given = make(checkout, "record", "GPU=$(a) b", "RESULTS=-x").stdout
    assert "<record>\n<--results=./-x>\n<--gpu=$(a) b>\n" in given
    done = make(checkout, "record")
    assert done.returncode == 2 and done.stderr.startswith("record: say which: make record GPU=")


def test_a_folder_whose_name_begins_with_a_hyphen_is_no_option(checkout):
    (checkout / "-x/mine").mkdir(parents=True)
    given = ["RESULTS=-x", "RECORDED=-x"]
    wanted = "<--results>\n<./-x/mine>\n<--output>\n<./-x/mine"
    for target in ("render", "render-recorded"):
        assert wanted in make(checkout, target, *given).stdout


@pytest.mark.parametrize(
    ("script", "given"),
    [
        (["scripts/render", "--recorded"], {"RECORDED": "a\x1b[31mb", "RESULTS": "x"}),
        (["scripts/build"], {"ARCH": "a\x1b[31mb", "PRESET": "gpu"}),
        (["scripts/peer"], {"VERSION": "a\x1b[31mb"}),
        (
            ["scripts/python", "-m", "experiments", "reproduce", "mine"],
            {"RECORDED": "a\x1b[31mb", "RESULTS": "x", "MEASURE": ""},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_terminal_is_told_nothing_by_what_is_given(checkout, script, given):
    shutil.copy(ROOT / "scripts/build", checkout / "scripts")
    declare(checkout, one="bench")
    done = run(checkout, *script, BIN="build/cpu/bin", PEER="", NO_GPU_WHY="why", **given)
    assert done.returncode == 2
    assert r"a\E[31mb" in done.stderr or r"a\x1b[31mb" in done.stderr
    assert done.stderr.rstrip("\n").isprintable()


def test_a_folder_that_cannot_be_written_is_said(checkout):
    (checkout / "build/deps.log").mkdir()
    for what in ("build", "python"):
        done = run(checkout, "scripts/deps", what)
        said = "deps: cannot write build/deps.log: this folder must be writable\n"
        assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("character", '#";\\')
def test_a_path_that_cmake_cannot_do_is_said(tmp_path, character):
    (tmp_path / f"a{character}b/scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/deps", tmp_path / f"a{character}b/scripts")
    done = run(tmp_path / f"a{character}b", "scripts/deps", "build")
    said = 'deps: CMake cannot build in a folder whose path has one of # " ; \\: rename it\n'
    assert (done.returncode, done.stderr) == (2, said)


def test_a_folder_for_temporary_files_is_no_command(checkout, tmp_path):
    place = tmp_path / "x'; touch injected; '"
    place.mkdir()
    run(checkout, "scripts/deps", "build", TMPDIR=str(place))
    assert not list(tmp_path.rglob("injected")) and not list(place.iterdir())


@pytest.mark.parametrize("module", ["sass", "ncu", "plots", "languages"])
def test_two_hyphens_are_no_value(module):
    words = {"sass": ["facts", "--output=--"], "ncu": ["check", "--kernel=--"]}
    words |= {"plots": ["claims", "--output=--"], "languages": ["mojo", "--arch=--", "--check"]}
    done = run(ROOT, sys.executable, "-m", module, *words[module])
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("'--' is no value")
