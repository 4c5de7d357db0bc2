"""The Python with PyTorch: its search, the commands that need it, and runs without it."""

import sys

import pytest
from make_targets import declare, make, printed, reproduce, run

NAMES_IT = "build/end_to_end/python"


def test_a_pass_that_needs_torch_is_left_out_without_it(checkout):
    declare(checkout, one="python -m beside --x", also="torch = true")
    said = f"one: left out: needs PyTorch and bitsandbytes (5 GB); make {NAMES_IT} installs them\n"
    for dry in ("", "1"):
        done = reproduce(checkout, DRY_RUN=dry)
        assert done.stdout.startswith(said) and "beside" not in done.stdout
        assert (done.returncode, done.stderr) == (0, "")
    assert make(checkout, NAMES_IT).returncode == 0
    words = "-m beside --x --output results/mine/one.json".split()
    assert reproduce(checkout, VERBOSE="1").stdout.startswith(printed(words))


def test_our_library_is_built_for_passes_under_torch(checkout):
    declare(checkout, "product", one="python -m beside", also="torch = true")
    product = ("make", "reproduce-product", "PRESET=gpu")
    assert "built" not in run(checkout, *product).stdout  # its pass is left out
    done = run(checkout, "make", "test-end_to_end", "PRESET=gpu")
    assert done.stdout.startswith("built\n<-m>\n<pytest>\n")
    assert run(checkout, *product, "VERBOSE=1").stdout.startswith("built\n<-m>\n<beside>\n")
    assert "built" not in run(checkout, *product, "DRY_RUN=1").stdout


@pytest.mark.parametrize(
    ("version", "gpu", "measure", "fault"),
    [
        ("10.0", True, "gpu", ""),
        ("5.18.0.dev0", True, "gpu", ""),
        ("5.2.1", True, "gpu", "transformers 5.2.1 < 5.17"),
        ("5.17.0", False, "gpu", "torch 5.17.0 finds no GPU"),
        ("5.17.0", False, "", ""),  # sufficient for tests
    ],
)
def test_an_installed_python_is_used_or_the_reason_is_logged(
    checkout, real, tools, tmp_path, version, gpu, measure, fault
):
    real("deps")
    modules = tmp_path / "modules"
    modules.mkdir()
    for name in ("accelerate", "bitsandbytes", "fastjsonschema", "numpy", "torch", "transformers"):
        (modules / f"{name}.py").write_text(f"__version__ = '{version}'\n")
    with (modules / "torch.py").open("a") as torch:
        torch.write(f"import types\ncuda = types.SimpleNamespace(is_available=lambda: {gpu})\n")
    refuses = 'case "$*" in *version_info*) exit 1;; esac'  # no environment is made
    with_modules = f'{refuses}; PYTHONPATH={modules} exec {sys.executable} "$@"'
    done = run(checkout, "scripts/deps", "torch", MEASURE=measure, **tools(python3=with_modules))
    assert (done.returncode == 0) is not bool(fault)
    log = (checkout / "build/deps.log").read_text()
    assert log.endswith(f": {fault}\n") if fault else log == ""
    assert (checkout / NAMES_IT).exists() is not bool(fault)
