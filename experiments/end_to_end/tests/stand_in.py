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
from experiments.end_to_end import plan, prompts
from reprolab import result_file
from reprolab.result_file import checkout


def content(cell, failed, wrong, lost):
    records = []
    for mode in ("eager", "graph"):
        facts = {"tokens": cell.choices.tokens, "prompts": prompts.TEXT}
        problem = made.generated(cell.model, cell.batch, mode, **facts)
        for row in cell.choices.rows:
            metrics = [made.metric("wall_time", [1e6, 2e6, 3e6])]
            record = made.record(problem, row.kernel.replace(" ", "_"), metrics=metrics)
            if row.kernel in failed:
                made.fail(record, "launch_failed", failed[row.kernel])
            if row.kernel in wrong:
                made.fail(record, "mismatch", "1 of 64 tokens differ")
            if row.kernel in lost:
                made.fail(record, "not_measured", "CUPTI recorded 2 of 3 forward passes")
            records.append(record)
    origin = made.provenance(
        argv=command.command_line(), instrument="events", **checkout()._asdict()
    )
    return result_file.content("end_to_end", cell.pass_name, origin, records)


def main():
    (model, all_failed), log = sys.argv[1:3], Path(os.environ["STAND_IN"])
    del sys.argv[1:3]
    args, faults = command.parser().parse_args(), json.loads(log.read_text())
    output = args.output
    running = command.running_of(output)
    running.parent.mkdir(parents=True, exist_ok=True)
    for cell in plan.cells(command.chosen(args), args.pass_name):
        failed, file = json.loads(all_failed).get(cell.text, {}), cell.file(output)
        if cell.model != model or file.exists():
            continue
        with log.with_name("cells").open("a") as cells:
            facts = {"pid": os.getpid(), "model": cell.model, "batch": cell.batch}
            cells.write(json.dumps(facts | {"failed": failed}) + "\n")
        for row in cell.choices.rows:
            running.write_text(f"{cell.text}\n{row.kernel}")
            if row.kernel == faults.get("die_at") and row.kernel not in failed:
                os.abort()
        running.write_text(f"{cell.text}\n")
        if faults.get("die_after") == cell.batch:
            os.abort()
        if "refuse" not in faults:
            wrong, lost = (faults.get(name, ()) for name in ("wrong", "lost"))
            result_file.write(file, content(cell, failed, wrong, lost))
        running.unlink()
    sys.exit(2 if "refuse" in faults else 0)


if __name__ == "__main__":
    main()
