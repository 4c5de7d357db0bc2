"""Stands in for measure.py: sends its messages and writes its files, but measures nothing.

The file named by STAND_IN has the faults: {"dead": GPUs}, {"die_at": kernel}, {"die_after": true or
a batch}, {"refuse": text}, {"silent": true}, and {"wrong": kernels} or {"lost": kernels}. Each job
is added to the file `jobs` next to it.
"""

import json
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import made

from reprolab import result_file


def content(job, wrong=(), lost=()):
    cell, choices = job.cell, job.cell.choices
    records = []
    for mode in ("eager", "graph"):
        facts = {"tokens": choices.tokens, "prompts": choices.prompts.text}
        problem = made.generated(Path(cell.model).name, cell.batch, mode, **facts)
        for row in choices.rows:
            name = "bitsandbytes_0.50.2" if row.kind == "installed" else row.kernel
            metrics = [made.metric("wall_time", [1e6, 2e6, 3e6])]
            record = made.record(problem, name, metrics=metrics, lineage="under bitsandbytes")
            record["lineage"] = "as installed" if row.kind == "installed" else record["lineage"]
            if row.kernel in job.failed:
                made.fail(record, "launch_failed", job.failed[row.kernel])
            if row.kernel in wrong:
                made.fail(record, "mismatch", "1 of 64 tokens differ")
            if row.kernel in lost:
                made.fail(record, "not_measured", "CUPTI recorded 2 of 3 forward passes")
            records.append(record)
    origin = made.provenance(argv=job.argv, instrument="events", **job.sources.told())
    return result_file.content("end_to_end", cell.pass_name, origin, records)


def main():
    file, pipe = Path(os.environ["STAND_IN"]), Connection(int(sys.argv[1]))
    gpu = os.environ["CUDA_VISIBLE_DEVICES"]
    print("from a library")
    faults = json.loads(file.read_text())
    if gpu in faults.get("dead", ()):
        sys.exit(1)
    pipe.send({})
    while True:
        job = pipe.recv()
        with file.with_name("jobs").open("a") as jobs:
            facts = {"pid": os.getpid(), "gpu": gpu, "cpus": sorted(os.sched_getaffinity(0))}
            facts |= {"model": job.cell.model, "batch": job.cell.batch, "failed": job.failed}
            jobs.write(json.dumps(facts) + "\n")
        rows = [row.kernel for row in job.cell.choices.rows]
        for i, kernel in enumerate(rows):
            pipe.send({"row": kernel, "mode": "eager", "share": i / len(rows)})
            if kernel == faults.get("die_at") and kernel not in job.failed:
                os.abort()
        pipe.send({"row": "", "mode": "eager", "share": 0.99})
        if faults.get("die_after") in (True, job.cell.batch):
            os.abort()
        if faults.get("silent"):
            time.sleep(60)
        if "refuse" not in faults:
            wrong, lost = (faults.get(name, ()) for name in ("wrong", "lost"))
            result_file.write(job.file, content(job, wrong, lost))
        pipe.send({"ended": faults.get("refuse", "")})


if __name__ == "__main__":
    main()
