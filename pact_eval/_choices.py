"""Closed lists of names that users choose from, and defaults that `--help` shows.

The library and the command line read the same lists. Of ours, this module imports the errors alone,
so `--help` waits for nothing. Names of engines, dtypes and wires are in `scoring/request.py` and
`scoring/servers/wire.py`, which are as cheap. Import formats have a registry of modules
(`importing/registry.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, TypeAlias

from pact_eval.errors import InputError

Decoding: TypeAlias = Literal["single", "ensemble"]
"""Which views a prediction uses: view 0 alone, or the mean over all K views."""

RunRole: TypeAlias = Literal["evaluation", "calibration", "selection"]
"""What a run is for."""

Allowance: TypeAlias = Literal[
    "other-adapter",
    "other-base",
    "other-contract",
    "other-prompts",
    "other-decoding",
    "other-data",
    "other-quantisation",
    "trained-on",
]
"""A difference that the user accepts, or data that the model has seen."""

DataAllowance: TypeAlias = Literal["trained-on", "other-data"]
"""What the file of `--data` may be."""

ExportLayout: TypeAlias = Literal["adapter", "with-base", "merged"]
"""What a folder of `pact-eval export` has."""

ScoreAllowance: TypeAlias = Literal["trained-on", "other-data", "other-contract"]
"""What the file of `--data`, or the prompt contract of an adapter, may be."""

GroupBy: TypeAlias = str
"""Grouping of the items, in addition to the group of all items: one of `OWN_GROUPS`, or the name of
a further column of the records."""

Bins: TypeAlias = int | tuple[float, ...]
"""A number of bins with equally many items, or the inner edges of bins."""

OWN_GROUPS: Final = ("kind", "domain", "source_family")
"""Groupings that every run has."""

ClusterUnit: TypeAlias = Literal["family", "source_family"]
"""What intervals and exact tests take as independent: new families of the same source families, or
new source families."""

Mode: TypeAlias = Literal["scalar", "per-kind", "per-question", "contextual"]
"""The form of a calibrator: one temperature, one for each field kind or question, or one for each
item."""

ExperimentStage: TypeAlias = Literal[
    "audit",
    "split",
    "ablate",
    "register",
    "train",
    "check",
    "score",
    "calibrate",
    "scorecard",
    "page",
    "paper",
]
"""The stages of an experiment, in their order."""

Signal: TypeAlias = Literal["top", "margin", "entropy", "disagreement"]
"""Top probability; its distance to the second; entropy in nats; mean TV between the K views."""

GateGroups: TypeAlias = Literal["all", "kind", "domain", "question", "answer"]
"""Which items share a gate: all of them, those of a kind, of a domain or of a question, or those to
which the model gives the same answer."""

SetGroups: TypeAlias = Literal["kind", "question"]
"""Which items share the level of answer sets: those of a kind, or those of a question."""

Counting: TypeAlias = Literal["families", "items"]
"""What counts the same in a guarantee: every family, or every item."""

Severity: TypeAlias = Literal["error", "warning", "note"]
"""An error makes an evaluation untrustworthy; a warning may; a note is worth knowing."""

CiFormat: TypeAlias = Literal["sarif", "junit", "github"]
"""A format of results for systems that run checks on every change."""

LogMetric: TypeAlias = Literal["acc", "acc_norm", "acc_bytes", "acc_mutual_info"]
"""The metric of lm-evaluation-harness by which answers are read."""

PositionsFrom: TypeAlias = Literal["0", "1"]
"""Number of the first position, where answers are positions of options."""

AnswerForm: TypeAlias = Literal["text", "letter"]
"""How a file of others writes answers, where they are no positions."""

SeveralRight: TypeAlias = Literal["any"]
"""How questions with several right answers are read: any of them counts."""

Demand: TypeAlias = Literal["values", "shown"]
"""What a scorecard must be clear by: the values, or what is shown."""

FigureStyle: TypeAlias = Literal["default", "neurips", "icml", "acl"]
"""The page that figures are drawn for: ours, or that of a LaTeX template."""

DATA_CHECK_NAMES: Final = (
    *("hashes", "schema", "questions", "families", "certificates"),
    *("separation", "balance", "shortcuts", "lengths"),
)
"""The checks of a dataset, in the order in which they run: modules of `audit` with a `CHECK`."""

ECE_BINS: Final = 15
"""Bins of ECE, of equal width."""

CONFIDENCE: Final = 0.95
"""Confidence of the guarantee of a gate."""

COVERAGE: Final = 0.9
"""Share of new items whose answer set contains the right answer."""

NEAR_DUPLICATE: Final = 0.8
"""Cosine from which two contexts are near duplicates."""

MOST_EDIT_WORDS: Final = 8
"""Words that an edit within a pair may touch."""

FINDINGS_KEPT: Final = 5
"""Findings of each code that are reported in full."""


def check_choice(option: str, value: str | None, choices: Collection[str]) -> None:
    """Refuse a value that an option does not have, as the command line does.

    Args:
        option: name of the option, such as `--role`.
        value: what was given; None is the default.
        choices: the values that there are.

    Raises:
        InputError: it is none of them.

    Examples:
        >>> from typing import get_args
        >>> check_choice("--role", "holdout", get_args(RunRole))
        Traceback (most recent call last):
            ...
        pact_eval.errors.InputError: --role holdout: expected evaluation, calibration or selection
    """
    if value is not None and value not in choices:
        *names, last = choices
        expected = f"{', '.join(names)} or {last}" if names else last
        raise InputError(f"{option} {value}: expected {expected}")
