"""The sources' files."""

import re

import made
import pytest

from reprolab.claims.published import load_source, load_sources
from reprolab.errors import InputError


@pytest.fixture(scope="module")
def sources():
    return {source.id: source for source in load_sources()}


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


@pytest.mark.parametrize("name", ["each_of", "value_of"])
def test_a_misspelt_number_is_one_line(name, sources, tmp_path):
    text = re.sub(f'"{name}": "', f'"{name}": "misspelt', sources["paper"].file.read_text())
    (tmp_path / "paper.json").write_text(text)
    with pytest.raises(InputError, match=r"paper\.json: claim .*: 'misspelt.* is none of"):
        load_source(tmp_path / "paper.json")
