"""Exits with 0 if this Python has what the project's own Python files need.

--quick: looks for the packages and imports none, which every make can wait for.
"""

import sys
from importlib import import_module
from importlib.util import find_spec

NEEDED = (
    "auditwheel fastjsonschema hatchling jinja2 markdown_it matplotlib numpy pandas pytest scipy "
    "xdist"
).split()

has = find_spec if sys.argv[1:] == ["--quick"] else import_module
sys.exit(sys.version_info < (3, 11) or not all(map(has, NEEDED)))
