"""The sources' files: their contents, and the errors for invalid ones."""

import math
import re

import made
import pytest

from reprolab.claims.published import load_sources


@pytest.fixture(scope="module")
def sources():
    return {source.id: source for source in load_sources()}


def test_a_number_has_a_direction_and_a_statement_has_no_number(sources):
    cells = [c for source in sources.values() for claim in source.claims for c in claim.cells]
    wrong = {(c.claim, c.text) for c in cells if (c.value is None) != (c.direction == "statement")}
    assert {claim for claim, _ in wrong} == {"l2-explains-l4"}  # whose order alone is asked for


def test_the_reason_for_the_primary_reading_names_no_result(sources):
    for claim in (claim for source in sources.values() for claim in source.claims):
        if len(claim.readings) > 1:
            first, *others = claim.readings
            assert not re.search(r"\d+\.\d|reproduced|faster|slower", first["primary_because"])
            assert not any("primary_because" in reading for reading in others)


def test_a_remark_has_no_number_that_was_measured_here(sources):
    """These are in cells, which are computed: 2.12 x, 0.397 s. Products and ratios of the source's
    own numbers may stand there.
    """
    of_its_own = {"13.041", "4.7", "6.8", "44.2", "33.4", "39.2"}
    for source in sources.values():
        text = source.file.read_text()
        for said in [claim.remark for claim in source.claims] + [n["text"] for n in source.notes]:
            named = re.findall(r"(\d+\.\d+) ?(?:x|s|ms|times)\b", said)
            assert all(text.count(n.rstrip("0")) > 1 or n in of_its_own for n in named), said


def test_every_number_is_compared_or_excused_once(sources):
    for source in sources.values():
        cells = [cell for claim in source.claims for cell in claim.cells]
        used = {path for cell in cells for path in (*cell.paths, *cell.arguments.values())}
        left = [path for path in source.numbers if path not in used]
        excused = made.raw(source.id).get("without_cell", {})
        found = {p: [e for e in excused if f"{p}/".startswith(f"{e}/")] for p in left}
        assert all(len(excuses) == 1 for excuses in found.values()), (source.id, found)
        assert {excuse for excuses in found.values() for excuse in excuses} == {*excused}
        for table, ours in source.setup.get("our_kernels", {}).items():
            assert ours.keys() == source.tables[table].keys()


def test_tolerances_that_the_sources_own_numbers_give(sources):
    """Two fills may differ by what a model's row of Table II varies by; models' averages by what
    theirs do.
    """
    paper = sources["paper"]
    rows = [paper.tables["table2"][model] for model in paper.models]
    columns = [[row[str(batch)] for batch in paper.every("batch")] for row in rows]
    spread = max(100 * (1 - min(column) / max(column)) for column in columns)
    claims = {claim.id: claim for claim in paper.claims}
    assert claims["single-thread-fill"].cells[1].tolerance_percent == math.ceil(10 * spread) / 10
    averages = [row["average"] for row in rows]
    apart = 100 * (max(averages) / min(averages) - 1)
    assert claims["consistent"].cells[0].tolerance_percent == math.ceil(10 * apart) / 10


def test_the_posts_gb_per_s_are_601_gb_over_its_seconds(sources):
    results = sources["modular_blog"].tables["results"]
    moved = 123331584000 + 478150656000  # read and written, as our rows count it: 601.48 GB
    both = [
        (row[f"{k}_s"], row[f"{k}_gb_s"]) for row in results.values() for k in ("unsloth", "mojo")
    ]
    assert [round(moved / 1e9 / gb_s, 2) for _, gb_s in both] == [seconds for seconds, _ in both]
