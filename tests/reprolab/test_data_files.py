"""Every file of data/ is validated by its reader, and every schema by the schema of schemas."""

import json
from fnmatch import fnmatch

import pytest

import reprolab.counter_table
import reprolab.families
import reprolab.json_files
from reprolab.claims import rules, uncertainty
from reprolab.claims.evidence import Case, collect
from reprolab.claims.published import load_source
from experiments.end_to_end import sizes
from profiling.ncu import agreement
from reprolab import code, run_to_run
from reprolab.errors import InputError
from reprolab.json_files import ROOT, Schema, read_json
from reprolab.results import load
from reprolab_nf4 import timing_table


def with_file(monkeypatch, module, name, function):
    def read(file):
        monkeypatch.setattr(module, name, file if name != "FOLDER" else file.parent)
        getattr(function, "cache_clear", lambda: None)()
        try:
            return function()
        finally:
            getattr(function, "cache_clear", lambda: None)()

    return read


@pytest.fixture
def reader(monkeypatch, tmp_path):
    """Readers of the files of data/, by pattern; another checkout's file in its place."""
    for name in ("models.json", "transformers.json"):
        (tmp_path / name).write_text((ROOT / "data/models" / name).read_text())
    of_table = (reprolab.counter_table, "TABLE", reprolab.counter_table.known)
    of_families = (reprolab.families, "FILE", reprolab.families.described)
    readers = {
        "counters.json": with_file(monkeypatch, *of_table),
        "families.json": with_file(monkeypatch, *of_families),
        "older_code.json": lambda file: code.SCHEMA.read(file),
        "run_to_run.json": with_file(monkeypatch, run_to_run, "RUN_TO_RUN", run_to_run.recorded),
        "host_to_host.json": with_file(
            monkeypatch, uncertainty, "HOST_TO_HOST", uncertainty.host_classes
        ),
        "models/protocol.json": with_file(monkeypatch, sizes, "FOLDER", sizes.protocol),
        "models/*.json": with_file(monkeypatch, sizes, "FOLDER", sizes.known),
        "published/*.json": load_source,
        "products/*.json": timing_table.read,
        "recorded/*/counters/ncu.json.xz": lambda file: agreement.SCHEMA.read(file),
        "recorded/*.json.xz": load, "repetitions/*.json.xz": load,
    }
    return lambda name: next(read for pattern, read in readers.items() if fnmatch(name, pattern))


DATA = sorted(
    str(file.relative_to(ROOT / "data"))
    for pattern in ("*.json", "*.json.xz")
    for file in (ROOT / "data").rglob(pattern)
    if not file.name.endswith(".schema.json")
)
SMALL = [name for name in DATA if name.endswith(".json")]
SMALL.append(next(name for name in DATA if name.startswith("recorded/")))
DAMAGES = {
    "a list at the root": lambda root: [root],
    "a number at the root": lambda root: 7,
    "no list or object": lambda root: root | {last(root): None},
    "a misspelt name": lambda root: {
        name + "x" * (name == last(root)): root[name] for name in root
    },
    "an empty object": lambda root: {},
}


def last(root):
    """The name of the largest part."""
    return max(root, key=lambda name: len(json.dumps(root[name])))


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", SMALL)
def test_a_damaged_file_of_data_is_one_line(name, damage, reader, tmp_path, refused):
    read, root = reader(name), read_json(ROOT / "data" / name)
    file = tmp_path / name.split("/")[-1].removesuffix(".xz")
    file.write_text(json.dumps(root))
    read(file)
    file.write_text(json.dumps(DAMAGES[damage](root)))
    assert file.name in refused(read, file)


@pytest.mark.parametrize(
    ("name", "part"), [("counters.json", "counters"), ("families.json", "families")]
)
def test_a_second_entry_of_one_name_is_refused(name, part, reader, tmp_path, refused):
    root, file = json.loads((ROOT / "data" / name).read_text()), tmp_path / name
    root[part].append(root[part][0])
    file.write_text(json.dumps(root))
    assert "duplicate" in refused(reader(name), file)
    if name == "families.json":
        root[part].pop()
        family = next(family for family in root[part] if family["kernels"])
        family["kernels"].append(family["kernels"][0])
        file.write_text(json.dumps(root))
        assert "two kernels" in refused(reader(name), file)


@pytest.mark.parametrize("left_out", ["models/models.json", "models/transformers.json", ""])
def test_a_protocol_of_unknown_models_is_refused(left_out, reader, tmp_path, refused):
    root = json.loads((ROOT / "data/models/protocol.json").read_text())
    file, models = tmp_path / "protocol.json", next(iter(root["models"].values()))
    models[0] += "x" * (not left_out)
    file.write_text(json.dumps(root))
    if left_out:
        known = json.loads((ROOT / "data" / left_out).read_text())
        if isinstance(known["models"], dict):
            del known["models"][models[0]]
        else:
            known["models"] = [m for m in known["models"] if m["id"] != models[0]]
        (tmp_path / left_out.split("/")[1]).write_text(json.dumps(known))
    sizes.known.cache_clear()
    error = refused(reader("models/protocol.json"), file)
    sizes.known.cache_clear()
    assert f"'{models[0]}'" in error and "models.json" in error


def test_lengths_of_time_are_sorted(reader, tmp_path, refused):
    root, file = json.loads(run_to_run.RUN_TO_RUN.read_text()), tmp_path / "run_to_run.json"
    root["gpus"]["NVIDIA H200"]["spread"]["kernel_time"].reverse()
    file.write_text(json.dumps(root))
    assert "spread.kernel_time" in refused(reader("run_to_run.json"), file)


@pytest.mark.parametrize("part", ["spread", "shared"])
def test_a_misspelt_kind_of_time_is_refused(part, reader, tmp_path, refused):
    root, file = json.loads(run_to_run.RUN_TO_RUN.read_text()), tmp_path / "run_to_run.json"
    deviations = root["gpus"]["NVIDIA H200"][part]
    deviations["kernel_tme"] = deviations.pop("kernel_time")
    file.write_text(json.dumps(root))
    assert "shared.kernel_t" in refused(reader("run_to_run.json"), file)


SCHEMAS = sorted(file.name for file in (ROOT / "data").glob("*.schema.json"))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_with_a_misspelt_keyword_is_one_line(name, write, tmp_path, monkeypatch):
    """A validator ignores an unknown keyword, and allows everything."""
    monkeypatch.setattr(reprolab.json_files, "ROOT", tmp_path)
    for file in ("schema.schema.json", "results.schema.json", name):
        write(f"data/{file}", json.loads((ROOT / "data" / file).read_text()))
    text, place = (ROOT / "data" / name).read_text(), tmp_path / "data" / name

    def check():
        for file in (name, "results.schema.json"):
            Schema(file).check(tmp_path / "file.json", {})

    for keyword in ("properties", "required", "additionalProperties", "type", "$ref"):
        before, *parts = text.split(f'"{keyword}":')
        for i in range(len(parts) if name == "schema.schema.json" else min(1, len(parts))):
            monkeypatch.setattr(reprolab.json_files, "OF_SCHEMAS", Schema("schema.schema.json"))
            keywords = [keyword[: -1 if i == j else None] for j in range(len(parts))]
            words = (f'"{word}":{part}' for word, part in zip(keywords, parts, strict=True))
            place.write_text(before + "".join(words))
            with pytest.raises(InputError, match=f"{tmp_path}/data"):
                check()


@pytest.mark.parametrize(("argument", "value"), [("why", -1), ("kernel", 7), ("most", "much")])
def test_an_argument_of_another_kind_is_refused(argument, value, write, refused):
    """A possible part of data/published/paper.json."""
    root = json.loads((ROOT / "data/published/paper.json").read_text())
    claim, comparison = next(
        (claim, c)
        for claim in root["claims"]
        for c in claim["comparisons"]
        if argument in c["arguments"]
    )
    comparison["arguments"][argument] = value
    source = load_source(write("paper.json", root))
    (claim,) = (c for c in source.claims if c.id == claim["id"])
    case = next(
        Case(source, claim, c, c.cells[0], collect(()))
        for c in claim.comparisons
        if c.arguments.get(argument) == value
    )
    assert f"arguments.{argument}" in refused(rules.bind, case)
