"""Exits with 0 if this Python has what the project's own Python files need; where there is nvcc,
also what reads nvcc's code, unless the toolkit has it.

--quick: looks for the packages and imports none, which every make can wait for.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from shutil import which

NEEDED = (
    "auditwheel fastjsonschema hatchling jinja2 markdown_it matplotlib numpy pandas pytest scipy "
    "xdist"
).split()

has = find_spec if sys.argv[1:] == ["--quick"] else import_module
if which("nvcc") and not (which("nvdisasm") and which("cuobjdump")):
    version("nvidia-cuda-nvdisasm"), version("nvidia-cuda-cuobjdump")
sys.exit(sys.version_info < (3, 11) or not all(map(has, NEEDED)))
