"""Which products are those of a layer in training mode. Needs nothing but the standard library."""

import functools
import threading
from collections.abc import Callable


class Training(threading.local):
    """Whether this thread is inside of a layer in training mode. Reentrant checkpoints run such
    layers without gradients at first, where their activations look like those of inference.
    """

    is_on = False


training = Training()


def marking_training(layer: type) -> Callable:
    """Linear4bit's __call__, and not its forward, which hooks of accelerate may have kept."""
    own = vars(layer).get("__call__")

    @functools.wraps(layer.__call__)
    def call(self, *given, **by_name):
        # Module.__call__ is looked up each time, because torch.fx replaces it while it traces.
        if own is None:
            run = super(layer, self).__call__
        else:
            run, given = own, (self, *given)
        if not self.training:
            return run(*given, **by_name)
        training.is_on = True
        try:
            return run(*given, **by_name)
        finally:
            training.is_on = False

    return call
