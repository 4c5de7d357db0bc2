"""`python -m plots`."""

import contextlib
import logging
from pathlib import Path


def run() -> int:
    # Hides matplotlib's warning about a home that is not writable.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    with contextlib.chdir(Path(__file__).parent):  # not the user's, which may hold a matplotlibrc
        import matplotlib  # noqa: F401

    from plots.cli import main

    return main()


raise SystemExit(run())
