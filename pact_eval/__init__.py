"""Audit and evaluate single-token typed-decision models.

    >>> import pact_eval
    >>> callable(pact_eval.evaluate)
    True

`pact_eval.api` is loaded when one of its names is first used, so `import pact_eval` is fast.
`pact_eval.errors` has the errors below `PactError`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pact_eval import errors as errors
    from pact_eval.api import (
        audit_adapter,
        audit_dataset,
        check_answer_sets,
        check_thresholds,
        choose_answer_sets,
        choose_thresholds,
        compare,
        compare_logs,
        compare_remedies,
        evaluate,
        fit_calibrator,
        import_run,
        judge,
        measure_drift,
        plan,
        read_run,
        score,
    )
    from pact_eval.data.records import read_records
    from pact_eval.errors import PactError
    from pact_eval.evaluation.experiment import Experiment
    from pact_eval.evaluation.settings import Settings
    from pact_eval.runs.folder import Run

__all__ = [
    "Experiment",
    "PactError",
    "Run",
    "Settings",
    "audit_adapter",
    "audit_dataset",
    "check_answer_sets",
    "check_thresholds",
    "choose_answer_sets",
    "choose_thresholds",
    "compare",
    "compare_logs",
    "compare_remedies",
    "evaluate",
    "fit_calibrator",
    "import_run",
    "judge",
    "measure_drift",
    "plan",
    "read_records",
    "read_run",
    "score",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("pact_eval.errors")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("pact_eval.api"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
