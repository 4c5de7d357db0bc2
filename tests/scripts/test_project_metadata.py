"""The project's facts outside its code: one version, one licence, and its line ends."""

import re
import subprocess
import tomllib

from make_targets import ROOT


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def value_of(pattern, name):
    (value,) = re.findall(pattern, text(name), re.MULTILINE)
    return value


def test_version_and_licence_are_the_same_everywhere():
    version = value_of(r"project\(reprolab VERSION ([\d.]+)", "CMakeLists.txt")
    assert value_of(r"^version: (.*)$", "CITATION.cff") == version
    assert re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)[1] == version
    packaged = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["version"]
    assert packaged["path"] == "CMakeLists.txt"
    assert text("LICENSES/Apache-2.0.txt") == text("LICENSE")
    spdx = tomllib.loads(text("REUSE.toml"))["annotations"][0]["SPDX-License-Identifier"]
    assert value_of(r"^license: (.*)$", "CITATION.cff") == spdx == "Apache-2.0"


def test_line_ends_are_kept_where_git_converts_them(tmp_path):
    """core.autocrlf would change what is hashed, and bash would not run scripts."""
    (tmp_path / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    (tmp_path / "script").write_bytes(b"#!/bin/sh\n")
    git = ["git", "-c", "core.autocrlf=true", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in ("init -q", "add -A", "commit -qm all", "rm -q script", "checkout HEAD script"):
        subprocess.run([*git, *words.split()], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "script").read_bytes() == b"#!/bin/sh\n"
