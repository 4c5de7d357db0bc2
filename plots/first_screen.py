"""The first screen of README and of the pages: the findings of all recorded GPUs as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from reprolab.claims import findings, several_gpus
from plots import ledger
from plots.claim_details import relative
from plots.documents import markdown_escape
from plots.documents import markdown_link as link
from reprolab.captions import banner

if TYPE_CHECKING:
    from plots.document import MachineResults


def compared(recorded: Sequence[MachineResults]) -> list[several_gpus.Machine]:
    """As findings are made from them."""
    evidence = [machine.evidence for machine in recorded]
    ledgers = [machine.decisions for machine in recorded]
    return several_gpus.machines_of(ledger.gpu_names(evidence), evidence, ledgers)


def findings_table(recorded: list[MachineResults], seen_from: Path) -> str:
    """Whether the paper is right, and the findings. Two columns, for narrow screens."""
    machines = compared(recorded)
    every = findings.findings(machines)
    if not every:
        return ""
    pairs = zip(machines, recorded, strict=True)
    folders = {m.gpu: relative(pages.folder, seen_from) for m, pages in pairs}
    used = [r for m in recorded for r, _ in ledger.used_by(m.evidence, m.decisions)]
    origin = f"<sub>{markdown_escape(banner(*used))}</sub>" if used else ""
    right = markdown_escape(findings.answer(machines))
    right = f"**{findings.PAPER_IS_RIGHT}** {right}" if right else ""
    lines = ["<br>".join(filter(None, (right, origin))), ""]
    lines += ["| claim | result |", "| --- | --- |"]
    for i, finding in enumerate(every, 1):
        page, claim = place(finding)

        def linked(text: str, gpu: str, page: str = page, claim: str = claim) -> str:
            return link(markdown_escape(text), f"{folders[gpu]}/{page}", claim)

        result = f"**{finding.question}** " * bool(finding.question) + markdown_escape(
            finding.result
        )
        numbers = [
            f"{', '.join(linked(gpu, gpu) for gpu in gpus)}: {markdown_escape(number)}"
            for number, gpus in finding.gpus.items()
        ]
        shown = "; ".join(numbers) or linked("The arithmetic", machines[0].gpu)
        lines.append(f"| {i}. {markdown_escape(finding.statement)} | {result}.<br>{shown} |")
    return "\n".join([*lines, ""])


def place(finding: findings.Headline) -> tuple[str, str]:
    """The page that shows it, from the folder of a machine's pages, and the heading in it."""
    page, _, claim = finding.link.partition("#")
    return page, claim.replace(".", "")
