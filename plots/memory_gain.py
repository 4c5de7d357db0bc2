"""A sentence about the kernels whose speed follows the memory's bandwidth from one GPU to
another."""

from collections.abc import Mapping

NAMED = 3  # kernels of each kind
LEAST = 1.1  # a smaller ratio of bandwidths does not separate kernels


def difference(rates: Mapping[str, Mapping[str, float]], base: str, sms: Mapping[str, int]) -> str:
    """'' unless there are two GPUs that differ. `rates`: in GB/s by GPU and kernel, in the order in
    which they are named; `base`: the kernel at the memory's speed; `sms`: multiprocessors.
    """
    if len(rates) != 2 or any(base not in by_kernel for by_kernel in rates.values()):
        return ""
    a, b = sorted(rates, key=lambda gpu: rates[gpu][base])
    gain = {k: rates[b][k] / rate for k, rate in rates[a].items() if k in rates[b]}
    memory = gain.pop(base)
    if memory < LEAST:
        return ""
    follows = [k for k, ratio in gain.items() if ratio > (1 + memory) / 2]
    stays = [k for k, ratio in gain.items() if ratio <= (1 + memory) / 2]
    head = f"From {a} to {b}, {base} is {memory:.2f} x as fast"
    if sms[a] == sms[b]:
        head += f", with as many multiprocessors ({sms[a]})"
    kinds = (("at least half of that gain", follows), ("less", stays))
    parts = [f"{bound}: {named(kernels, gain)}" for bound, kernels in kinds if kernels]
    text = "; ".join(parts)
    return f"{head}. {text[0].upper()}{text[1:]}." if text else ""


def named(kernels: list[str], gain: Mapping[str, float]) -> str:
    shown = ", ".join(f"{kernel} {gain[kernel]:.2f} x" for kernel in kernels[:NAMED])
    return shown + f" and {len(kernels) - NAMED} more" * (len(kernels) > NAMED)
