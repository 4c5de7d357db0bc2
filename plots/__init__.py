"""Results and verdicts in, tables and figures out. Needs no GPU and no build."""

import os
from pathlib import Path

# Matplotlib reads these when it is first imported, so that neither a notebook's MPLBACKEND nor a
# matplotlibrc, which may be damaged, affects our figures.
os.environ["MPLBACKEND"] = "agg"
os.environ["MATPLOTLIBRC"] = str(Path(__file__).with_name("figures.mplstyle"))
