"""`make wheel`: one wheel in dist/, whatever the checkout's path, and no older one lost."""

import pytest
from make_targets import make, program

# Stands in for hatchling, which packs, and for auditwheel, which names the wheel by its real path.
PACKS = """#!/bin/bash
for last; do :; done
case $2 in
  hatchling) mkdir -p "$last" && echo "$VERSION" >"$last/reprolab_nf4-$VERSION-py3-none-any.whl" ;;
  auditwheel)
    [ -f "$last" ] || exit 1
    mkdir -p "$5" && cp "$last" "$5/"
    echo "Fixed-up wheel written to $(realpath "$5")/${last##*/}" ;;
esac
"""


@pytest.fixture
def checkout_at(checkout):
    """A checkout whose path has a link."""
    program(checkout / "scripts/python", PACKS)
    place = checkout.parent / "a link"
    place.symlink_to(checkout)
    return place


def wheels(folder):
    return sorted(file.name.split("-")[1] for file in folder.glob("*.whl"))


def test_the_new_wheel_is_there_and_older_ones_are_kept(checkout_at):
    dist = checkout_at / "dist"
    for version, older in (("1", []), ("2", ["1"]), ("2", ["1", "2"])):
        done = make(checkout_at, "wheel", f"VERSION={version}")
        name = f"reprolab_nf4-{version}-py3-none-any.whl"
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1] == f"dist/{name}"
        assert (dist / name).read_text() == f"{version}\n"
        assert (wheels(dist), wheels(dist / "older")) == ([version], older)
