"""A random walk: layers are called, changed, copied, trained, with install() and undo() anywhere.
Each output must be that of bitsandbytes alone.
"""

import collections
import copy
import pickle
import random

import pytest
from cpu_as_gpu import K, bitsandbytes, close, outcome, torch
from test_changes import ARRAYS, OTHERS, WRITES

Linear4bit, OWN = bitsandbytes.nn.Linear4bit, bitsandbytes.nn.Linear4bit.forward
OWN_PRODUCT = bitsandbytes.matmul_4bit
SAFE = ("another tensor", "in place", "other data")
STEPS = 1000


class Alone:
    """bitsandbytes' own functions, inside or outside of an installation."""

    def __enter__(self):
        self.ours = {name: vars(Linear4bit).get(name) for name in ("forward", "__call__")}
        self.product = bitsandbytes.matmul_4bit
        Linear4bit.forward, bitsandbytes.matmul_4bit = OWN, OWN_PRODUCT
        if self.ours["__call__"] is not None:
            del Linear4bit.__call__

    def __exit__(self, *_):
        Linear4bit.forward, bitsandbytes.matmul_4bit = self.ours["forward"], self.product
        if self.ours["__call__"] is not None:
            Linear4bit.__call__ = self.ours["__call__"]


def plain(one, x):
    return one(x)


def trained(one, x):
    with torch.enable_grad():
        return one(x.clone().requires_grad_())


def in_training(one, x):
    y = one.train()(x)
    one.eval()
    return y


def hooked(one, x):
    handle = one.register_forward_hook(lambda module, given, output: output * 2)
    try:
        return one(x)
    finally:
        handle.remove()


CALLS = [plain] * 12 + [trained, in_training, hooked]
CALLS += [lambda one, x: one(x.t().contiguous().t()), lambda one, x: one(x.float())]
CALLS += [lambda one, x: one.forward(x), lambda one, x: type(one).__call__(one, x)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("seed", [5])
def test_a_thousand_random_operations_are_bitsandbytes(seed, in_c, bench, monkeypatch):
    if not in_c:
        monkeypatch.setattr("reprolab_nf4.layers.extension", lambda: None)
    chance, installed, paths = random.Random(seed), None, collections.Counter()
    torch.manual_seed(seed)
    kinds = [{"nested": nested, "bias": bias} for nested in (False, True) for bias in (False, True)]
    layers = [bench.layer(**kind) for kind in kinds]
    for _ in range(STEPS):
        i = chance.randrange(len(layers))
        one, what = layers[i], chance.random()
        if what < 0.02:
            if installed is None:
                installed = bench.install(
                    chance.choice(["fastest", "fastest", "exact", "dequantize"])
                )
            else:
                installed = installed.undo() and None
        elif what < 0.05:
            has = {"codes": True, "bias": kinds[i]["bias"]}
            names = [name for name in ARRAYS if has.get(name, kinds[i]["nested"])]
            name = chance.choice(names)
            WRITES[chance.choice(SAFE)](one, name, ARRAYS[name][0](one))
        elif what < 0.06 and kinds[i] == {"nested": False, "bias": True}:
            OTHERS[chance.choice(["state", "swapped", "loaded"])](one)
        elif what < 0.07:
            layers[i] = one = chance.choice(
                [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
            )(one)
        x = bench.inputs(chance.choice([1, 1, 1, 4, 16, 20]), K)
        call = chance.choice(CALLS)
        with Alone():
            expected = outcome(call, one, x)
        bench.look()
        close(outcome(call, one, x), expected)
        paths[bench.path()] += 1
    if installed is not None:
        installed.undo()
    assert not bench.counts_calls or paths["planned" if in_c else "ours"] > 50
