"""Stands in for measure.py: writes its files, but measures nothing.

The file named by STAND_IN has the faults: {"die_at": kernel}, {"die_after": batch},
{"refuse": true}, and {"wrong": kernels} or {"lost": kernels}. Each cell is added to `cells` next to
it.
"""

import json
import os
import sys
from pathlib import Path

import made

from experiments.end_to_end import __main__ as command
from experiments.end_to_end import partial_results
from reprolab import result_file
from reprolab.provenance import checkout


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
    file, args = Path(os.environ["STAND_IN"]), command.parser().parse_args()
    faults, choices = json.loads(file.read_text()), command.chosen(args)
    run = partial_results.run_of(choices, os.environ["INSTALLED"])
    output, given = command.output_of(args), sys.argv[1:]
    jobs = partial_results.jobs(choices, args.pass_name, output, run, given, checkout())
    for job in [job for job in jobs if not partial_results.is_done(job, "NVIDIA H200")]:
        with file.with_name("cells").open("a") as cells:
            facts = {"pid": os.getpid(), "model": job.cell.model, "batch": job.cell.batch}
            cells.write(json.dumps(facts | {"failed": job.failed}) + "\n")
        job.running.parent.mkdir(parents=True, exist_ok=True)
        for kernel in (row.kernel for row in choices.rows):
            job.running.write_text(kernel)
            if kernel == faults.get("die_at") and kernel not in job.failed:
                os.abort()
        job.running.write_text("")
        if faults.get("die_after") == job.cell.batch:
            os.abort()
        if "refuse" not in faults:
            wrong, lost = (faults.get(name, ()) for name in ("wrong", "lost"))
            result_file.write(job.file, content(job, wrong, lost))
        job.running.unlink()
    sys.exit(2 if "refuse" in faults else 0)


if __name__ == "__main__":
    main()
