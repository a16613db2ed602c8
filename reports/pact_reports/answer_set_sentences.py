"""Answer sets in words: how large they are, what cannot be promised, and what a check found."""

from __future__ import annotations

from collections.abc import Iterator

from pact_eval.evaluation import ClusterUnit
from pact_eval.thresholds import AnswerSets, AnswerSetsCheck, CheckedSets, KindSets
from pact_reports.numbers import units_text
from pact_reports.tables.answer_sets import promise_text
from pact_reports.tables.thresholds import named
from pact_reports.threshold_sentences import model_warnings


def sets_answer(found: AnswerSets) -> str:
    """Say how large the sets are, and for which kinds none are smaller than all answers."""
    kept = [_size(each) for each in found.kinds if each.level.threshold is not None]
    left = [_needs(each, found.rule.unit) for each in found.kinds if each.level.threshold is None]
    rest = f"no set smaller than all answers can be promised for {'; '.join(left)}" if left else ""
    if not kept:
        return f"{rest[:1].upper()}{rest[1:]}."
    said = f"{promise_text(found)}: {', '.join(kept)}"
    return f"{said[:1].upper()}{said[1:]}{f'; {rest}' if rest else ''}."


def sets_check_answer(check: AnswerSetsCheck) -> str:
    """Say what a check found, kind by kind."""
    promised = [each for each in check.kinds if each.filed.threshold is not None]
    if not promised:
        return "Cannot tell: the file promises nothing, so there are no sets to check."
    parts = []
    for verdict in ("broken", "cannot tell", "holds"):
        kinds = [
            _checked_sets(each, check.file.rule.unit)
            for each in promised
            if each.test.verdict == verdict
        ]
        parts += [f"{verdict}: {named(kinds)}"] if kinds else []
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def sets_check_warnings(check: AnswerSetsCheck) -> Iterator[str]:
    """Yield what a reader must know of a check: other models, items without a set."""
    yield from model_warnings(check.run, check.differences, check.model_known, "sets")
    if check.without_sets:
        yield (
            f"{check.run.place}: {check.without_sets:,} items are of kinds without sets; they "
            "take every answer"
        )
    if check.unanswered:
        yield f"{check.run.place}: {check.unanswered:,} items have no answer, and no set"


def _size(found: KindSets) -> str:
    what = "levels" if found.kind == "score" else "answers"
    return f"{found.sets.size.value:.2f} of {found.sets.answers:.2f} {what} for {found.kind}"


def _needs(found: KindSets, unit: ClusterUnit) -> str:
    units = units_text("families", unit)
    enough = "" if found.needed is None else f"about {found.needed:,} {units} would do, "
    return f"{found.kind} ({enough}the run has {found.sets.units:,})"


def _checked_sets(found: CheckedSets, unit: ClusterUnit) -> str:
    test = found.test
    seen = f"{test.wrong:,} of {test.drawn:,} missed"
    if test.needed is None:
        return f"{found.kind} ({seen})"
    return f"{found.kind} ({seen}; about {test.needed:,} {units_text('families', unit)} could tell)"
