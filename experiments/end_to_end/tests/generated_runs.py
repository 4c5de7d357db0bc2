"""Result files of generated text, and verdicts on them, for tests of the claims."""

import made

BATCHES = (2, 4, 8, 16, 32, 64)
TREE, LUT = "branch_tree", "shared_lut"


def results_of(pass_name, metric, times, way="eager", model="qwen3-32b", spread=0.0):
    """`times`: by batch, the baseline's and the kernel's, or in graphs those of a step; each has
    three samples, `spread` apart.
    """
    rows, metric = [], metric + ".step" * (way == "graph")
    for batch, pair in times.items():
        problem = made.generated(model, batch, way)
        moved = {"read": problem["weights"] * 18, "written": problem["weights"] * 64}
        for kernel, us in zip((TREE, LUT), pair, strict=True):
            samples = [us * (1 - spread), us, us * (1 + spread)]
            metrics = [made.metric(metric, samples)]
            rows.append(made.record(problem, kernel, metrics=metrics, bytes=moved))
    return made.results("end_to_end", pass_name, rows)


def files(model, walls, parts=(4e6, 2e6), way="eager"):
    """`walls`: by batch, the latencies; `parts`: the times of dequantizations."""
    timing = results_of("timing", "wall_time", walls, way, model)
    return [timing, results_of("profile", "kernel_time", dict.fromkeys(walls, parts), way, model)]


def gains(by_batch, spread=0.0, way="eager", model="qwen3-32b"):
    """The baseline takes `by_batch` times as long; the host hardly affects runs so long."""
    times = {batch: (6e6 * gain, 6e6) for batch, gain in by_batch.items()}
    return results_of("timing", "wall_time", times, way, model, spread)
