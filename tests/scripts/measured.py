"""A substitute for a program that measures: `measured.py PROGRAM ARGUMENTS...` writes the command's
result file from template.json, with the model in MODEL.

Each call adds a line to `began` next to the results: pass and GPU. BESIDE: the number of calls that
must have begun before it continues; WRONG: the passes with a wrong output. It also waits while a
file hang-PASS exists.
"""

import json
import os
import sys
import time
from pathlib import Path

argv = sys.argv[1:]
name, output = argv[argv.index("--pass") + 1], Path(argv[argv.index("--output") + 1])
began = output.parent.parent / "began"
began.parent.mkdir(parents=True, exist_ok=True)
with began.open("a") as file:
    file.write(f"{name} {os.environ.get('CUDA_VISIBLE_DEVICES', 'any')}\n")
while len(began.read_text().splitlines()) < int(os.environ.get("BESIDE", "1")):
    time.sleep(0.01)
while Path(f"hang-{name}").exists():
    time.sleep(0.01)
model = os.environ.get("MODEL") or "qwen3-32b"
content = json.loads(Path("template.json").read_text().replace("qwen3-32b", model))
content["pass"], content["provenance"]["argv"] = name, argv
is_wrong = name in os.environ.get("WRONG", "").split()
if is_wrong:
    content["records"][0].update(outcome="mismatch", metrics=[], reason="1 of 8 weights differ")
new = output.with_suffix(".new")
output.parent.mkdir(exist_ok=True)
new.write_text(json.dumps(content))
new.rename(output)
print("measured", name, flush=True)
sys.exit(int(is_wrong))
