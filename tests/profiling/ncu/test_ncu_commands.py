"""`python -m ncu`: its commands, its output, and all of its errors."""

import json

import pytest
import stand_ins
from ncu.__main__ import CHECKED, parser
from sass.kernels import registered
from stand_ins import PROBLEM, StandIns

from reprolab import declared
from reprolab.command_line import run
from reprolab.results import result_files

RANGE = "table2:shared_lut:28672x8192_fp16_b64"


@pytest.fixture
def tools(tmp_path, monkeypatch):
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return StandIns(folder)


@pytest.fixture
def ncu(tools, tmp_path, capfd):
    """Runs the module; returns its exit status, stdout and stderr."""

    def call(*arguments):
        places = [f"--programs={tools.folder}", f"--results={tmp_path}/50 %/profile"]
        status = run(parser(), [*arguments, *places])
        return status, *capfd.readouterr()

    return call


def profile(ncu, experiment="table2", kernel="shared_lut", *more):
    return ncu("profile", f"--experiment={experiment}", f"--kernel={kernel}", *more)


def fails(done, noun):
    status, _, err = done
    return status == 2 and err.startswith("error: ") and err.count("\n") == 1 and noun in err


def test_ncu_profiles_the_second_range_and_leaves_clocks_and_caches(tools, ncu, tmp_path):
    status, out, err = profile(ncu)
    assert (status, err) == (0, "")
    plan, profiled, imported = tools.calls()
    of_bench = ["--experiment=table2", "--family=nf4", "--kernel=shared_lut"]
    of_bench += ["--shape=28672x8192", "--instrument=none"]
    assert plan == ["bench", *of_bench, "--dry-run", "--json"]
    report = tmp_path / f"50 %/profile/{RANGE.replace(':', '.')}.ncu-rep"
    assert report.read_text() == "a report"
    assert profiled[0] == "ncu" and imported[1:] == [
        *("--config-file=off", f"--import={report}", "--page=raw", "--csv")
    ]
    assert profiled[-1 - len(of_bench) :] == [str(tools.folder / "bench"), *of_bench]
    wanted = {f"--export={str(report).replace('%', '%%')}", "--nvtx", "--range-filter=::2"}
    wanted |= {"--clock-control=none", "--cache-control=none", "--config-file=off"}
    wanted |= {f"--nvtx-include=reprolab@{RANGE}/", "--section=Reprolab", "--apply-rules=off"}
    assert wanted <= set(profiled)
    assert out.splitlines()[0].endswith("--shape=28672x8192 --instrument=none")
    assert f"shared_lut on {PROBLEM}: {stand_ins.KERNEL}" in out
    assert "60,948,480" in out and "132,120,576" in out
    assert f"ncu-ui '{report}'\n" in out


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--set=full"], ["--set=full", "--range-filter=::2"]),
        (["--section=A,B"], ["--section=A", "--section=B", "--range-filter=::2"]),
        (["--set=full", "--launches=4"], ["--set=full", "--launch-count=4"]),
        (["--launches=4"], ["--section=Reprolab", "--launch-count=4"]),
    ],
)
def test_ncus_own_sections_and_more_launches_are_asked_for(tools, ncu, given, wanted):
    status, out, _ = profile(ncu, "table2", "shared_lut", *given)
    profiled = tools.calls()[1]
    (bench,) = (n for n, word in enumerate(profiled) if word.endswith("/bench"))
    assert status == 0 and profiled[bench - len(wanted) : bench] == wanted
    assert ("--section-folder=build/ncu" in profiled) is ("--section=Reprolab" in wanted)
    assert ("60,948,480" in out) is ("--section=Reprolab" in wanted)


@pytest.mark.parametrize(
    ("option", "name"),
    [("--launches=x", "LAUNCHES"), ("--launches=0", "LAUNCHES"), ("--set=a b", "SET")],
)
def test_pages_that_cannot_be_are_one_line(tools, ncu, option, name):
    status, _, err = profile(ncu, "table2", "shared_lut", option)
    assert status == 2 and err.startswith(f"error: {name}: ") and err.count("\n") == 1
    assert not tools.calls()


@pytest.mark.parametrize("built", [True, False])
def test_a_dry_run_prints_the_command_without_a_gpu(tools, ncu, built):
    tools.set(plan=stand_ins.plan(why_none="no GPU"))
    for name in ["ncu"] + ["bench"] * (not built):
        (tools.folder / name).unlink()
    status, out, err = profile(ncu, "table2", "shared_lut", "--dry-run", "--set=full")
    assert (status, err) == (0, "")
    command, *more = out.splitlines()
    assert command.startswith("ncu ") and " --set=full " in command
    size = RANGE.rpartition(":")[2] if built else "28672x8192"
    assert f"--nvtx-include=reprolab@table2:shared_lut:{size}/ " in command
    assert len(more) == (0 if built else 1)


@pytest.mark.parametrize(
    ("experiment", "kernel", "more", "wanted"),
    [
        ("transpose", "tma_naive", [], ["--family=transpose", "--matrix=32768x32768"]),
        ("counters", "tma_naive", [], ["--family=transpose", "--matrix=32768x32768"]),
        ("counters", "branch_tree", [], ["--family=nf4", "--shape=28672x8192"]),
        ("table2", "shared_lut", ["--problem=64x64"], ["--family=nf4", "--shape=64x64"]),
        ("table2", "bnb", [], ["--shape=28672x8192", "--peer=a.so", "--peer=b.so"]),
    ],
)
def test_the_kernel_and_the_experiment_choose_the_problem(
    tools, ncu, monkeypatch, experiment, kernel, more, wanted
):
    monkeypatch.setenv("PEER", "a.so b.so" if kernel == "bnb" else "")
    assert profile(ncu, experiment, kernel, *more)[0] == 0
    assert set(wanted) <= set(tools.calls()[1])


def test_a_pass_that_names_no_family_may_be_of_any(tools, ncu, tmp_path, monkeypatch):
    monkeypatch.setattr(declared, "FOLDER", tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/experiment.toml").write_text('[pass.one]\nprogram = "bench"\n')
    for kernel, family in (("tma_naive", "transpose"), ("streaming", "nf4"), ("bnb", "nf4")):
        assert profile(ncu, "mine", kernel)[0] == 0
        assert f"--family={family}" in tools.calls()[-3]


def test_a_refusal_of_bench_is_shown(tools, ncu):
    tools.set(complaint="bench: --kernel 'x' selects nothing; there are: a, b\n")
    assert fails(profile(ncu, "table2", "x"), tools.behaviour["complaint"].strip())
    assert [call[0] for call in tools.calls()] == ["bench"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("puzzle",), "EXPERIMENT: 'puzzle' cannot be profiled; there are "),
        (("table2", "shared_*"), "KERNEL: 'shared_*' is a pattern; give one kernel's whole name"),
        (("table2", "tma_naive"), "KERNEL: 'tma_naive' is of family transpose, not of table2"),
    ],
)
def test_an_unknown_name_is_one_line(tools, ncu, arguments, message):
    status, _, err = profile(ncu, *arguments)
    assert status == 2 and err.startswith(f"error: {message}") and err.count("\n") == 1
    assert not tools.calls()


@pytest.mark.parametrize(
    "plan", [{"why_none": "no GPU"}, {"shared_lut": "no GPU", "other": "not this one"}]
)
def test_a_kernel_that_cannot_run_is_not_profiled(tools, ncu, plan):
    tools.set(plan=stand_ins.plan(**plan))
    assert fails(profile(ncu), "shared_lut on 28672x8192: no GPU")
    assert len(tools.calls()) == 1


def test_without_ncu(tools, ncu):
    (tools.folder / "ncu").unlink()
    assert fails(profile(ncu), "ncu is not in PATH")


def test_without_bench(tools, ncu):
    (tools.folder / "bench").unlink()
    wanted = f"{tools.folder / 'bench'}: No such file or directory: run make build"
    assert fails(profile(ncu), wanted)


PERMISSION = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access\n"
RETURNED = "==ERROR== The application returned an error code (2).\n"
NONE = "==WARNING== No kernels were profiled.\n"


@pytest.mark.parametrize(
    ("says", "status", "message"),
    [
        (
            PERMISSION,
            1,
            "no permission to read counters (ERR_NVGPUCTRPERM): run as root, or load the driver "
            "with NVreg_RestrictProfilingToAdminUsers=0",
        ),
        (NONE, 0, f"the range {RANGE} matched no kernel"),
        (f"it fits not\n{RETURNED}{NONE}", 2, "the program failed: it fits not"),
        (f"==ERROR== No driver.\n{RETURNED.replace('2', '1')}{NONE}", 1, "No driver."),
        (f"==ERROR== LibraryNotLoaded\n{RETURNED}", 1, "LibraryNotLoaded"),
        ("", 9, "ended with status 9: without output"),
    ],
)
def test_why_there_is_no_report_is_one_line(tools, ncu, tmp_path, says, status, message):
    old = tmp_path / f"50 %/profile/{RANGE.replace(':', '.')}.ncu-rep"
    old.parent.mkdir(parents=True)
    old.write_text("of an earlier run")
    tools.set(says=says, status=status, report=False)
    assert fails(profile(ncu), f"ncu: {message}")
    assert not old.exists()


def test_a_wrong_output_is_shown_and_status_1(tools, ncu):
    returned = RETURNED.replace("(2)", "(1)")
    for report in (True, False):
        says = f"{PROBLEM}/shared_lut: mismatch: at 7\n{returned}"
        tools.set(says=says, status=1, report=report)
        status, out, err = profile(ncu)
        assert (status, err) == (1, "")
        assert "mismatch: at 7" in out and "60,948,480" not in out


def test_check_compares_one_kernel_and_writes_text_and_json(tools, ncu, tmp_path):
    status, out, err = ncu("check", "--kernel=shared_lut")
    assert (status, err) == (0, "")
    counted = next(call for call in tools.calls() if "--instrument=counters" in call)
    assert "--samples=6" in counted
    assert [call[0] == "bench" for call in tools.calls()] == [True, True, False, False, False]
    folder = tmp_path / "50 %/profile"
    report = RANGE.replace("table2", "counters").replace(":", ".") + ".ncu-rep"
    assert (folder / report).is_file()
    assert list(result_files(folder)) == []  # that `make claims` would take for a newer run
    assert (folder / "ncu.txt").read_text() in out
    written = json.loads((folder / "ncu.json").read_text())
    assert written["schema"] == "reprolab-ncu-agreement/1"
    assert written["ncu"] == "2025.3.1.0 (build 36398880)"
    assert written["provenance"]["gpu"]["name"] == "NVIDIA H200"
    assert len(written["rows"]) == len(stand_ins.OURS)
    assert f"shared_lut on {PROBLEM}" in out and "60,948,000-60,948,480" in out
    assert "NVIDIA H200, driver 580.159.04" in out
    first = written["rows"][0]
    assert (first["kernel"], first["counter"]) == ("shared_lut", "warp_instructions")
    assert (first["ncu"], first["verdict"]) == (60948480, "equal")


def test_check_ends_with_1_where_they_do_not_agree(tools, ncu, tmp_path):
    ours = stand_ins.OURS | {"warp_instructions": ("instructions", [60948481.0] * 6)}
    tools.set(counters=stand_ins.result_file(ours))
    status, out, _ = ncu("check", "--kernel=shared_lut")
    assert status == 1
    assert "DIFFERS" in out
    assert (tmp_path / "50 %/profile/ncu.json").exists()


def test_check_says_why_there_are_no_counters_of_ours(tools, ncu):
    tools.set(counters=None)
    assert fails(ncu("check", "--kernel=shared_lut"), "bench: out of memory")
    without = stand_ins.result_file({})
    why = "counters: no permission"
    without["records"][0]["metrics"] = [
        {"name": "warp_instructions", "unit": "instructions", "missing": why}
    ]
    tools.set(counters=without)
    assert fails(ncu("check", "--kernel=shared_lut"), f"shared_lut on {PROBLEM}: {why}")


def test_check_ends_before_ncu_where_an_output_is_wrong(tools, ncu):
    for outcome, wanted in (("mismatch", 1), ("launch_failed", 1), ("unsupported", 2)):
        ours = stand_ins.result_file({}, outcome=outcome, reason="at 7")
        tools.set(counters=ours)
        status, _, err = ncu("check", "--kernel=shared_lut")
        assert status == wanted
        assert err == (f"error: shared_lut on {PROBLEM}: at 7\n" if wanted == 2 else "")
    assert all(call[0] == "bench" for call in tools.calls())


def test_check_of_a_call_with_several_kernels_is_refused(tools, ncu):
    tools.set(page=stand_ins.page(launches=2))
    status, _, err = ncu("check", "--kernel=shared_lut")
    assert status == 2 and "a call launches 2 kernels" in err


def test_a_problem_without_a_kernel_is_refused(tools, ncu):
    assert fails(ncu("check", "--problem=64x64"), "PROBLEM: ")


def test_the_kernels_that_are_checked_are_there():
    assert set(CHECKED) <= set(registered())
