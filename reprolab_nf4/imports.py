"""Calls back once a module has been imported. Needs nothing but the standard library."""

import importlib.abc
import logging
import sys
from collections.abc import Callable


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
    why = " ".join(str(error).split())
    logging.getLogger("reprolab_nf4").warning("reprolab_nf4%s: %s", what, why)


def forget(name: str) -> None:
    """Cancels after_import()."""
    finder = awaited(name)
    if finder is not None:
        sys.meta_path.remove(finder)


def awaited(name: str) -> "Awaited | None":
    of_ours = (finder for finder in sys.meta_path if isinstance(finder, Awaited))
    return next((finder for finder in of_ours if finder.name == name), None)


class Awaited(importlib.abc.MetaPathFinder):
    """Finds the module as the other finders do, and adds the action to its loader."""

    def __init__(self, name: str, action: Callable[[], None]):
        self.name, self._action = name, action

    def find_spec(self, fullname, path, target=None):
        if fullname != self.name:
            return None
        others = [finder for finder in sys.meta_path if not isinstance(finder, Awaited)]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = self._then_act(spec.loader.exec_module)
        return spec

    def _then_act(self, load: Callable) -> Callable:
        def exec_module(module) -> None:
            load(module)
            if awaited(self.name) is self:
                forget(self.name)
                self._action()

        return exec_module
