"""dropin.py, for programs of this project. Users put this folder on their path, not all of ours."""

from dropin.dropin import DropinError, Installed, Library, install

__all__ = ["DropinError", "Installed", "Library", "install"]
