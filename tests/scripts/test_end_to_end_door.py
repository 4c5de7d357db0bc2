"""What users hand to the end-to-end experiment and to `make advise`, and the Python they run in."""

import os
import shutil

import pytest
from front_door import ECHO, HOSTILE, declare, make, program, reproduce, run

CHOSEN = ("MODEL", "BATCHES", "KERNELS", "TOKENS", "PROMPTS", "GPUS", "CLOCKS")


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_chosen_of_a_run_reaches_it_as_it_is(checkout, value):
    taken = [*CHOSEN, "QUICK", "DRY_RUN"]
    declare(checkout, takes=taken, check="verify", steps="python -m steps")
    given = dict.fromkeys(CHOSEN, value)
    wanted = "".join(f"<--{name.lower()}>\n<{value}>\n" for name in CHOSEN)
    assert f"{wanted}<--quick>\n" in reproduce(checkout, **given, QUICK="1").stdout
    done = reproduce(checkout, **given)
    assert f"<-m>\n<steps>\n{wanted}<--output>\n<results/mine/steps.json>\n" in done.stdout
    # A Python pass that can say what it would run does so.
    done = reproduce(checkout, **given, DRY_RUN="1")
    assert done.stdout.endswith(f"<-m>\n<steps>\n{wanted}<--dry-run>\n")
    assert not list(checkout.rglob("injected"))


def test_quick_that_is_off_is_none(checkout):
    program(checkout / "scripts/python", '#!/bin/sh\nexec 2>&1\nprintf "<%s>\\n" "$QUICK"\n')
    for value, handed_on in [("", ""), ("0", ""), ("no", ""), ("1", "1")]:
        assert make(checkout, "reproduce-mine", f"QUICK={value}").stdout == f"<{handed_on}>\n"


def test_table_1_and_figure_4_are_one_run(checkout):
    folder = checkout / "experiments/end_to_end"
    folder.mkdir()
    declare(checkout, "end_to_end", timing="python -m experiments.end_to_end timing")
    (folder / "requirements.lock").touch()
    for target in ("reproduce-table1", "reproduce-figure4"):
        done = make(checkout, target, "RECORDED=nowhere")
        assert done.returncode == 2
        said = done.stderr.splitlines()[0]
        assert said.startswith("reproduce-end_to_end: ")
        assert said.endswith(", and there is no recorded run of it in nowhere yet")
        assert done.stdout == ""
        dry = make(checkout, target, "RECORDED=nowhere", "DRY_RUN=1").stdout.splitlines()
        assert dry[-1].startswith("show nothing: ") and dry[-1].endswith(" in nowhere yet")


def test_a_pass_that_needs_torch_is_left_out_where_there_is_none(advising):
    declare(advising, one="python -m beside --x", also="torch = true")
    said = "one: left out: needs PyTorch and bitsandbytes (5 GB); make build/end_to_end/python "
    for dry in ("", "1"):
        done = reproduce(advising, DRY_RUN=dry)
        assert done.stdout.startswith(f"{said}installs them\n") and "beside" not in done.stdout
        assert (done.returncode, done.stderr) == (0, "")
    assert make(advising, "build/end_to_end/python").returncode == 0
    done = reproduce(advising)
    words = ["-m", "beside", "--x", "--output", "results/mine/one.json"]
    assert done.stdout.startswith("".join(f"<{word}>\n" for word in words))
    assert reproduce(advising, DRY_RUN="1").stdout == "one: python -m beside --x\n"


def test_such_a_pass_of_products_has_our_library_built(advising):
    declare(advising, "product", one="python -m beside", also="torch = true")
    command = ("make", "reproduce-product", "PRESET=gpu")
    assert "built" not in run(advising, *command).stdout
    assert make(advising, "build/end_to_end/python").returncode == 0
    assert run(advising, *command).stdout.startswith("built\n<-m>\n<beside>\n")
    assert "built" not in run(advising, *command, "DRY_RUN=1").stdout


@pytest.mark.parametrize("target", ["advise", "tune"])
def test_what_measures_products_needs_a_gpu(checkout, target):
    done = make(checkout, target, "MODEL=x")
    assert done.stderr.startswith(f"{target}: nothing to measure: ")


@pytest.fixture
def advising(checkout):
    """A checkout whose programs say what they are given, as on a machine with a GPU."""
    for name in ("end_to_end", "product"):
        (checkout / "experiments" / name).mkdir()
    (checkout / "experiments/end_to_end/requirements.lock").touch()
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


@pytest.mark.parametrize("value", [*HOSTILE, ""])
def test_tuning_builds_what_it_needs(advising, value):
    done = run(advising, "make", "tune", "PRESET=gpu", f"MODEL={value}", "RESULTS=mine")
    model = [f"--model={value}"] * bool(value)
    words = ["-m", "experiments.end_to_end.tune", *model, "--output=mine/products.json"]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "built\n" + "".join(f"<{word}>\n" for word in words)
    assert not list(advising.rglob("injected"))


def test_a_dry_run_of_the_experiment_builds_nothing(advising):
    declare(advising, "end_to_end", timing="python -m timing")
    done = run(advising, "make", "reproduce-table1", "PRESET=gpu", "DRY_RUN=1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "timing: python -m timing\n", "")
    assert not (advising / "build/end_to_end").exists()


def test_the_python_with_torch_is_one_that_is_there_or_an_environment_of_its_own(checkout):
    (checkout / "experiments/end_to_end").mkdir()
    (checkout / "experiments/end_to_end/requirements.txt").write_text("torch==2.11.0\n")
    (checkout / "experiments/end_to_end/requirements.lock").touch()
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
    ("version", "gpu", "measure", "fault"),
    [
        ("5.17.0", True, "gpu", ""),
        ("10.0", True, "gpu", ""),
        ("5.18.0.dev0", True, "gpu", ""),
        ("5.2.1", True, "gpu", "transformers 5.2.1 < 5.17"),
        ("4.99", True, "gpu", "transformers 4.99 < 5.17"),
        ("5.17.0", False, "gpu", "torch 5.17.0 finds no GPU"),
        ("5.17.0", False, "", ""),  # which serves the tests
    ],
)
def test_an_installed_python_serves_or_says_why_not(
    checkout, tmp_path, version, gpu, measure, fault
):
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("accelerate", "bitsandbytes", "fastjsonschema", "numpy", "torch", "transformers"):
        (modules / f"{name}.py").write_text(f"__version__ = '{version}'\n")
    with (modules / "torch.py").open("a") as torch:
        torch.write(f"import types\ncuda = types.SimpleNamespace(is_available=lambda: {gpu})\n")
    program(checkout / "scripts/pinned", "#!/bin/sh\nexit 2\n")
    done = run(checkout, "scripts/end_to_end", PYTHONPATH=str(modules), MEASURE=measure)
    assert (done.returncode == 0) is not bool(fault)
    log = (checkout / "build/end_to_end/probe.log").read_text()
    assert log.endswith(f": {fault}\n") if fault else log == ""
    assert (checkout / "build/end_to_end/python").exists() is not bool(fault)


def test_tests_with_torch_run_in_the_python_that_has_it(advising):
    given = ("-m", "pytest", "-q", "tests/end_to_end", "tests/dropin")
    called = "".join(f"<{one}>\n" for one in given)
    assert make(advising, "test-end_to_end").stdout == called
    # Where kernels can run, they do so through the library.
    assert make(advising, "test-end_to_end", "PRESET=gpu").stdout == f"built\n{called}"
