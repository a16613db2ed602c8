"""Scores on the board of the Decision Index, compared with our reading of the results.

The board scores the benchmarks of a suite one by one, on groups of requests that were all answered.
Its `benchmark-summary.json` has the accuracy over questions, `scores.json` that of benchmarks whose
metric is accuracy, rounded to four decimals. Rows in `excluded-questions.json`, next to the suite,
are not scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pact_eval.errors import Problem
from pact_eval.importing.source import as_dict, read_large_json

EXCLUSIONS: Final = "excluded-questions.json"
_SUMMARY: Final = "benchmark-summary.json"
_SCORES: Final = "scores.json"
_ACCURACY: Final = "accuracy"
_CLOSE: Final = 1e-9
_ROUNDED: Final = 0.5e-4 + _CLOSE


def excluded_rows(suites: Sequence[Path]) -> frozenset[str]:
    """Return the run ids that the board does not score.

    Raises:
        InputError: a file of exclusions is damaged.
    """
    beside = {suite.with_name(EXCLUSIONS) for suite in suites}
    return frozenset(
        run_id
        for path in sorted(beside)
        if path.exists()
        for run_id in as_dict(read_large_json(path).get("rows"))
    )


@dataclass
class _Group:
    """The requests of a group: whether all were answered, and how many questions are right."""

    complete: bool = True
    right: int = 0
    questions: int = 0


@dataclass
class BoardCheck:
    """Counts right questions as the board does, and compares them with its files.

    Attributes:
        compared: benchmarks whose accuracy was compared.
    """

    compared: int = 0
    _groups: dict[tuple[str, str], _Group] = field(
        default_factory=lambda: defaultdict[tuple[str, str], _Group](_Group)
    )
    _unread: set[str] = field(default_factory=set)

    def incomplete(self, evaluation: dict[str, Any]) -> None:
        """Count a request that was not answered."""
        self._groups[_group(evaluation)].complete = False

    def unread(self, evaluation: dict[str, Any]) -> None:
        """Count a question that is scored in a way which an import cannot repeat."""
        self._unread.add(_group(evaluation)[0])

    def count(self, evaluation: dict[str, Any], *, right: bool) -> None:
        """Count a question of an answered request."""
        group = self._groups[_group(evaluation)]
        group.right += right
        group.questions += 1

    def contradictions(self, results: Path) -> Iterator[Problem]:
        """Yield the benchmarks whose accuracy differs from that in the files next to the results.

        Raises:
            InputError: such a file is damaged.
        """
        right: dict[str, int] = defaultdict(int)
        questions: dict[str, int] = defaultdict(int)
        for (catalog, _), group in self._groups.items():
            right[catalog] += group.right if group.complete else 0
            questions[catalog] += group.questions if group.complete else 0
        for name, catalog, logged, tolerance in _logged(results):
            if catalog in self._unread or not questions[catalog]:
                continue
            self.compared += 1
            ours = right[catalog] / questions[catalog]
            if abs(ours - logged) > tolerance:
                message = f"benchmark {catalog}: accuracy is {ours:.6f}, that of {name} {logged:g}"
                yield Problem(None, None, message)


def _logged(results: Path) -> Iterator[tuple[str, str, float, float]]:
    """Yield file, benchmark, accuracy and tolerance of what the board says, the exact file first.

    Raises:
        InputError: a file is damaged.
    """
    summary, scores = results.with_name(_SUMMARY), results.with_name(_SCORES)
    if summary.exists():
        listed = read_large_json(summary).get("benchmarks")
        for benchmark in map(as_dict, listed if isinstance(listed, list) else []):
            logged = as_dict(benchmark.get("detail")).get("field_accuracy")
            if isinstance(logged, int | float):
                yield _SUMMARY, str(benchmark.get("catalog_id")), float(logged), _CLOSE
    elif scores.exists():
        for catalog, benchmark in as_dict(read_large_json(scores).get("benchmarks")).items():
            logged = as_dict(benchmark).get("score")
            if as_dict(benchmark).get("metric") == _ACCURACY and isinstance(logged, int | float):
                yield _SCORES, str(catalog), float(logged), _ROUNDED


def _group(evaluation: dict[str, Any]) -> tuple[str, str]:
    return str(evaluation.get("catalog_id")), str(evaluation.get("group_id"))
