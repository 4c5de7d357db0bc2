"""The transpose with rows in Mojo, as far as they ran."""

import json

import made
import pytest
import transpose_fixtures
from looking import markdown_row, rendered

from plots.experiments import load_run
from plots.transpose.matrix import languages_table

BIG = "32768x32768"
MAKER = transpose_fixtures.MAKER


@pytest.fixture
def with_mojo():
    return transpose_fixtures.matrix(mojo=True), transpose_fixtures.sizes(mojo=True)


@pytest.fixture
def texts(with_mojo, write):
    return lambda: rendered("transpose", write("run", *with_mojo))


@pytest.fixture
def run(with_mojo, tmp_path):
    def load():
        for file in with_mojo:
            (tmp_path / f"{file['pass']}.json").write_text(json.dumps(file))
        return load_run("transpose", tmp_path)

    return load


def test_without_kernels_in_mojo_there_is_no_such_table(matrix, sizes, write):
    assert languages_table(load_run("transpose", write("run", matrix, sizes))) is None
    assert "languages.md" not in rendered("transpose", write("run", matrix, sizes))


def test_a_kernel_that_did_not_run_leaves_the_posts_values_where_they_were(texts, with_mojo):
    reason = "is not compiled for sm_100; make mojo ARCH=100"
    for kernel in transpose_fixtures.MOJO:
        made.fail(made.find(with_mojo[0], f"{BIG}/{kernel}"), "unsupported", reason)
    found = texts()
    assert markdown_row(found["matrix.md"], "`tma_naive`")[5:7] == [
        "875.46 (26.5)",
        "1056.08 (32.0)",
    ]
    row = markdown_row(found["languages.md"], "`tma_naive`")
    assert row[2:4] == ["-", "-"]
    assert row[5].startswith("unsupported")
    assert reason in found["languages.md"]
