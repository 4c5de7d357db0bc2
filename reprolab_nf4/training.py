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


def marking_training(own_call: Callable) -> Callable:
    """Linear4bit's __call__, and not its forward, which hooks of accelerate may have kept."""

    @functools.wraps(own_call)
    def call(self, *given, **by_name):
        if not self.training:
            return own_call(self, *given, **by_name)
        training.is_on = True
        try:
            return own_call(self, *given, **by_name)
        finally:
            training.is_on = False

    return call
