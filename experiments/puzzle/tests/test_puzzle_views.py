"""The puzzle's table of Unsloth in Python. The golden files have the other tables."""

import made
import pytest

pytest.importorskip("matplotlib", reason="NOT TESTED, no matplotlib")

from edited import Edited, edited  # noqa: F401, a fixture

from experiments.puzzle import views


@pytest.fixture
def run(edited) -> Edited:  # noqa: F811
    return edited("puzzle")


def peer_row(problem, version, seconds):
    times = [made.metric("wall_time", [1e6 * seconds] * 5)] if seconds else []
    row = made.record(problem, f"unsloth_{version}", metrics=times, lineage="two calls")
    row |= {"origin": {"kind": "peer", "maker": f"Unsloth {version}"}, "code": None}
    return row if seconds else made.fail(row, "mismatch", "one weight is wrong") or row


def test_unsloth_is_beside_the_posts_kernel(run):
    mlps = run.files["mlps"]
    (mojo,) = [row for row in mlps["records"] if row["kernel"] == "mojo_packed_512"]
    rows = [peer_row(mojo["problem"], *at) for at in (("2026.1.4", 0.9), ("2026.10.9", None))]
    run.files["peers"] = mlps | {"pass": "peers", "records": rows, "checks": []}
    table = views.peers_table(run.run())
    shown = [(row["kernel"], row["_seconds"], row["us"]) for row in table.rows]
    assert shown[0] == ("unsloth_2026.1.4", "0.9000 (0.9000-0.9000)", "100")
    assert shown[1][2] is None and shown[2][0] == "mojo_packed_512"
    assert "two calls" in " ".join(table.notes) and "peers" in run.tables()


def test_a_run_without_unsloth_has_no_such_table(run):
    assert views.peers_table(run.run()) is None
