"""That `make check` finds commands and paths that are not there."""

import shutil
import subprocess
import sys

import pytest
from front_door import ROOT

SOUND = """`make test`, `make test-my_own`, `make reproduce-mine`, `docs/map.md`,
[the map](docs/map.md#top), `build/x/y`, `kernels/*.cu`, [elsewhere](https://example.org/a/b)

```sh
make test DRY_RUN=1
```

```text
make nothing of/this
```
"""


@pytest.fixture
def check(tmp_path):
    """Calls it on a document of a small project: status and lines."""
    for folder in ("scripts", "docs", "experiments/mine"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(ROOT / "scripts/check_documents.py", tmp_path / "scripts")
    (tmp_path / "Makefile").write_text("test: build ## Run\ntest-my_own: test\n")
    (tmp_path / "docs/map.md").touch()
    (tmp_path / "experiments/mine/experiment.toml").touch()

    def run(text):
        (tmp_path / "README.md").write_text(text)
        command = [sys.executable, "scripts/check_documents.py", "README.md"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_what_is_there_is_no_fault(check):
    assert check(SOUND) == (0, "commands and paths: all there in 1 files\n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("`make tset`", "the Makefile has no target 'tset'"),
        ("`make reproduce-yours`", "the Makefile has no target 'reproduce-yours'"),
        ("```sh\nmake tset\n```", "the Makefile has no target 'tset'"),
        ("[the map](docs/mop.md)", "there is no 'docs/mop.md'"),
        ("`docs/mop.md`", "there is no 'docs/mop.md'"),
        ('<img src="docs/map.png">', "there is no 'docs/map.png'"),
    ],
)
def test_what_is_not_there_is_named_with_its_line(check, text, fault):
    line = 2 + text.startswith("```")
    assert check(f"\n{text}\n") == (1, f"README.md:{line}: {fault}\n")
