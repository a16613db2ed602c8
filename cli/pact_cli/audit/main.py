"""`pact-audit`: audit datasets and adapters."""

from __future__ import annotations

from typing import Final

import click

from pact_cli.errors import PactGroup, Sections

_COMMANDS: Final[Sections] = {  # in the order of work
    "Audit": {
        "data": (
            "audit.commands",
            "Audit a dataset, and conclude whether to trust evaluations on it.",
        ),
        "adapter": ("audit.commands", "Audit a LoRA adapter without loading it."),
    },
    "Files": {
        "manifest": ("audit.commands", "Write or update DIR/manifest.json, or check it."),
        "split": ("audit.commands", "Split a training file by source family."),
        "ablate": ("audit.commands", "Write the context of every pair without its evidence."),
        "convert": ("audit.commands", "Write a labelled file in the full format, with a manifest."),
        "diff": ("audit.commands", "Show which records and references differ in two versions."),
    },
}

_WORDS: Final = {
    "lint": "pact-audit data DIR",
    "check": "pact-audit data DIR",
    "audit": "pact-audit data DIR",
    "validate": "pact-audit data DIR",
    "dataset": "pact-audit data DIR",
    "model": "pact-audit adapter ADAPTER",
    "lora": "pact-audit adapter ADAPTER",
    "verify": "pact-audit manifest DIR --check, or pact-eval verify RUN",
    "hash": "pact-audit manifest DIR",
    "compare": "pact-audit diff OLD.jsonl NEW.jsonl",
    "import": "pact-audit convert IN OUT.jsonl",
    "report": "pact-eval report RUN",
}
"""By word that people type, the command that does it."""


@click.group(
    cls=PactGroup,
    sections=_COMMANDS,
    words=_WORDS,
    of_file="pact-audit data {}",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="pact-eval")
def main() -> None:
    """Audit datasets of typed decisions, and the adapters that were trained on them.

    data and adapter report findings; manifest, convert, split and ablate write files; diff
    compares two versions of a file. None of them needs torch.

    Exit codes: 0 success, 1 failure, 2 usage, 3 findings of the severity of --fail-on, 5 a hash
    does not match.
    """
