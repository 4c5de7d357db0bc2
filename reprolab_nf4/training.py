"""Marks the matmuls that are left to bitsandbytes. Needs nothing but the standard library."""

import threading
from collections.abc import Callable


class Left(threading.local):
    """Whether this thread's matmul is bitsandbytes' own, such as inside a layer in training mode.
    Reentrant checkpoints first run such layers without gradients, where their activations look like
    those of inference.
    """

    is_on = False


left = Left()

_layer: type  # Linear4bit
_own: Callable | None = None  # a __call__ of its own, if it has one


def marking_training(layer: type) -> Callable:
    """A __call__ for Linear4bit. Not a forward: hooks of accelerate may have kept the old one."""
    global _layer, _own
    if layer.__call__ is not call:  # unless an earlier install did
        _layer, _own = layer, vars(layer).get("__call__")
    return call


def call(self, *given, **by_name):
    """No closure: torch.compile would guard it on the class, where the function is not if layers
    are called in C.
    """
    # Module.__call__ is looked up each time, because torch.fx replaces it while it traces.
    if _own is None:
        run = super(_layer, self).__call__
    else:
        run, given = _own, (self, *given)
    if not self.training:
        return run(*given, **by_name)
    before = left.is_on  # of a layer around this one
    left.is_on = True
    try:
        return run(*given, **by_name)
    finally:
        left.is_on = before
