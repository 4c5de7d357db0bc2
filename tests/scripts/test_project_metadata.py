"""The project's facts outside its code: one version, one licence."""

import json
import re
import subprocess
import tomllib

import pytest
from make_targets import ROOT


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def value_of(pattern, name):
    (value,) = re.findall(pattern, text(name), re.MULTILINE)
    return value


VERSION = value_of(r"project\(reprolab VERSION ([\d.]+)", "CMakeLists.txt")


def test_the_version_is_that_of_cmake_everywhere():
    assert value_of(r"^version: (.*)$", "CITATION.cff") == VERSION
    for name in ("codemeta.json", ".zenodo.json"):
        assert json.loads(text(name))["version"] == VERSION
    newest = re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)
    assert newest[1] == VERSION
    packaged = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["version"]
    assert packaged["path"] == "CMakeLists.txt"


def test_the_licence_is_one():
    assert text("LICENSES/Apache-2.0.txt") == text("LICENSE")
    spdx = tomllib.loads(text("REUSE.toml"))["annotations"][0]["SPDX-License-Identifier"]
    named = [
        value_of(r"^license: (.*)$", "CITATION.cff"),
        json.loads(text(".zenodo.json"))["license"],
    ]
    named.append(json.loads(text("codemeta.json"))["license"].rpartition("/")[2])
    assert {*named, spdx} == {"Apache-2.0"}


@pytest.mark.parametrize("name", ["codemeta.json", ".zenodo.json"])
def test_authors_and_keywords_are_those_of_the_citation(name):
    described = json.loads(text(name))
    author = value_of(r"^authors:\n  - name: \"(.*)\"$", "CITATION.cff")
    assert [a["name"] for a in described.get("author") or described["creators"]] == [author]
    assert described["keywords"] == json.loads(text("codemeta.json"))["keywords"]


def test_the_workflow_runs_ci_in_the_dockerfiles_image():
    workflow = text(".github/workflows/ci.yml")
    assert "- run: .ci/run ${{ matrix.part }}\n" in workflow
    parts = value_of(r"^all=\((.*)\)$", ".ci/run").split()
    assert value_of(r"^ +part: \[(.*)\]$", ".github/workflows/ci.yml").split(", ") == parts
    assert parts[-1] == "bare" and all(f"\n{part}() {{\n" in text(".ci/run") for part in parts[:-1])
    files = re.findall(r"\b(?:tests|reprolab_nf4|scripts|\.ci)/[\w./]+", text(".ci/run"))
    assert files and all((ROOT / file).exists() for file in files)
    image = value_of(
        r"^ARG IMAGE=(nvidia/cuda:[0-9.]+-devel-ubuntu24.04@sha256:[0-9a-f]{64})$", "Dockerfile"
    )
    assert f"image: {image}\n" in workflow
    packages = value_of(r"--no-install-recommends (.*)$", ".github/workflows/ci.yml")
    assert packages in text("Dockerfile")


def test_line_ends_are_kept_where_git_converts_them(tmp_path):
    """core.autocrlf would change what is hashed, and bash would not run scripts."""
    (tmp_path / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    (tmp_path / "script").write_bytes(b"#!/bin/sh\n")
    git = ["git", "-c", "core.autocrlf=true", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in ("init -q", "add -A", "commit -qm all", "rm -q script", "checkout HEAD script"):
        subprocess.run([*git, *words.split()], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "script").read_bytes() == b"#!/bin/sh\n"
