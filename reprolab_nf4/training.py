"""Which products are those of a layer in training mode. Needs nothing but the standard library."""

import threading
from collections.abc import Callable


class Training(threading.local):
    """Whether this thread is inside of a layer in training mode. Reentrant checkpoints run such
    layers without gradients at first, where their activations look like those of inference.
    """

    is_on = False


training = Training()


_layer: type  # Linear4bit
_own: Callable | None = None  # its own __call__, where somebody gave it one


def marking_training(layer: type) -> Callable:
    """Linear4bit's __call__, and not its forward, which hooks of accelerate may have kept."""
    global _layer, _own
    if layer.__call__ is not call:  # already, by another install
        _layer, _own = layer, vars(layer).get("__call__")
    return call


def call(self, *given, **by_name):
    """Without a closure: torch.compile guards one where it finds the function on the class, which
    is not where it is if layers are called in C.
    """
    # Module.__call__ is looked up each time, because torch.fx replaces it while it traces.
    if _own is None:
        run = super(_layer, self).__call__
    else:
        run, given = _own, (self, *given)
    if not self.training:
        return run(*given, **by_name)
    training.is_on = True
    try:
        return run(*given, **by_name)
    finally:
        training.is_on = False
