"""Exits with 0 if this Python has what the project's own Python files need; where there is nvcc,
also what reads nvcc's code, unless the toolkit has it.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from shutil import which

NEEDED = (
    "auditwheel fastjsonschema hatchling jinja2 markdown_it matplotlib numpy pandas pytest scipy "
    "xdist"
).split()

if which("nvcc") and not (which("nvdisasm") and which("cuobjdump")):
    version("nvidia-cuda-nvdisasm"), version("nvidia-cuda-cuobjdump")
sys.exit(sys.version_info < (3, 11) or not all(map(import_module, NEEDED)))
