"""Calls back once a module has been imported. Needs nothing but the standard library."""

import importlib.abc
import itertools
import logging
import sys
from collections.abc import Callable

from reprolab_nf4.c_functions import one_line


def after_import(name: str, action: Callable[[], None]) -> None:
    """Calls `action` after the module is imported, or now if it has been. A second action for the
    same module is ignored.
    """
    if name in sys.modules:
        action()
    elif awaited(name) is None:
        sys.meta_path.insert(0, Awaited(name, action))


def log(what: str, error: Exception) -> None:
    """One line on an error that whoever imports the module would not catch."""
    words = f"reprolab_nf4{what}: {error}".split()
    logging.getLogger("reprolab_nf4").warning("%s", one_line(" ".join(words)))


def forget(name: str) -> None:
    """Cancels after_import()."""
    finder = awaited(name)
    if finder is not None:
        sys.meta_path.remove(finder)


def awaited(name: str) -> "Awaited | None":
    of_ours = (finder for finder in sys.meta_path if isinstance(finder, Awaited))
    return next((finder for finder in of_ours if finder.name == name), None)


class Awaited(importlib.abc.MetaPathFinder):
    """Finds the module as later finders do, with a loader that runs the action, too."""

    def __init__(self, name: str, action: Callable[[], None]):
        self.name, self._action = name, action

    def find_spec(self, fullname, path, target=None):
        if fullname != self.name:
            return None
        # Earlier finders are not asked: they have found nothing, or one of them asks this one.
        later = itertools.dropwhile(lambda finder: finder is not self, [*sys.meta_path])
        others = [finder for finder in later if finder is not self]
        others = [finder for finder in others if hasattr(finder, "find_spec")]  # as Python does
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = Acting(spec.loader, self._act)
        return spec

    def _act(self) -> None:
        if awaited(self.name) is self:
            forget(self.name)
            self._action()


class Acting:
    """In place of a module's loader until the module runs: other modules may have the same one."""

    def __init__(self, own, act: Callable[[], None]):
        self._own, self._act = own, act

    def __getattr__(self, name: str):
        return getattr(self._own, name)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        self._act()
