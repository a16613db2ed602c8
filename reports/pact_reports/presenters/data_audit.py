"""The audit of a dataset."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pact_eval._choices import Severity
from pact_eval._json import Json
from pact_eval.audit.dataset import DataAudit
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_reports.presenters.presenter import Presenter
from pact_reports.table import Line
from pact_reports.tables.audit import data_audit_parts, data_verdict

if TYPE_CHECKING:
    from pact_reports.ci.report import CiReport


def present(audit: DataAudit, fail_on: Severity = "error") -> Presenter:
    """Present the audit of a dataset.

    Args:
        audit: what was found.
        fail_on: the lowest severity that fails.
    """
    return Presenter(
        tables=partial(data_audit_parts, audit, fail_on=fail_on),
        to_json=partial(_json, audit, fail_on),
        headline=lambda: [data_verdict(audit, fail_on).text],
        headed=True,
        remarks=partial(_remarks, audit),
        ci=partial(_ci, audit, fail_on),
    )


def _ci(audit: DataAudit, fail_on: Severity) -> CiReport:
    from pact_reports.ci.audits import data_report

    return data_report(audit, data_verdict(audit, fail_on).text, fail_on)


def _remarks(audit: DataAudit) -> tuple[Line, ...]:
    if not audit.labelled:
        return ()
    from pact_reports.sentences.labelled import labelled_remarks

    return tuple(Line(remark) for data in audit.labelled for remark in labelled_remarks(data))


def _labelled_json(audit: DataAudit) -> dict[str, Json]:
    if not audit.labelled:
        return {}
    from pact_reports.sentences.labelled import labelled_json

    return {"labelled": labelled_json(audit.labelled)}


def _json(audit: DataAudit, fail_on: Severity) -> dict[str, Json]:
    from pact_reports.writers.audit_json import checks_json, file_json
    from pact_reports.writers.json import data_json, to_json

    settings, manifest = audit.settings, audit.source.manifest
    return {
        "settings": {
            "only": None if settings.only is None else list(settings.only),
            "max_edit_words": settings.max_edit_words,
            "near_duplicate": settings.near_duplicate,
            "keep": settings.keep,
            "k": settings.k,
            "seed": settings.seed,
            "tokenizer": None if settings.tokenizer is None else settings.tokenizer.name,
        },
        "manifest": None if manifest is None else manifest.name,
        "files": [
            file_json(file, facts) | {"families": families}
            for file, facts, families in zip(audit.files, audit.facts, audit.families, strict=True)
        ],
        **_labelled_json(audit),
        **checks_json(audit.checks, fail_on),
        "conclusion": data_json(DataConclusion.of_audit(audit)),
        "leaks": to_json(audit.leaks),
        "fail_on": fail_on,
        "tampered": audit.tampered,
    }
