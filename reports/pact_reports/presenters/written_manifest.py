"""A manifest that was written."""

from __future__ import annotations

from functools import partial

from pact_eval.data.manifest import WrittenManifest
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.dataset import manifest_parts
from pact_reports.writers.audit_json import file_json


def present(written: WrittenManifest) -> Presenter:
    """Present a written manifest: its path, and its files."""
    return Presenter(
        tables=partial(manifest_parts, written),
        to_json=lambda: {
            "manifest": str(written.path),
            "changed": written.changed,
            "files": [
                file_json(file, facts)
                for file, facts in zip(written.files, written.facts, strict=True)
            ],
        },
    )
