"""Check "families": two members, one small edit apart, with different references."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval._json import Json, dumps
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.data import LeafPath, Located, WordDiff, same_words, string_leaves, word_diff
from pact_eval.errors import Place

__all__ = ["FamilyCheck"]

_LABELS = ("split", "domain", "source_family")


class FamilyCheck:
    """Looks at one family after the other.

    Args:
        findings: collects what is wrong.
        max_edit_words: most words that an edit may touch.
    """

    def __init__(self, findings: Collector, max_edit_words: int) -> None:
        self._findings = findings
        self._max_edit_words = max_edit_words
        self._families = 0

    def family(self, members: Sequence[Located]) -> tuple[Located, Located] | None:
        """Look at one family of one file.

        Args:
            members: its records in the order of the file.

        Returns:
            The base and the counterfactual record, where the family is such a pair.
        """
        self._families += 1
        last = members[-1]
        if len(members) != 2:
            self._add("family-size", last.place, "two members", f"{len(members)}")
            return None
        variants = sorted(member.record.variant for member in members)
        if variants != ["base", "counterfactual"]:
            found = " and ".join(variants)
            self._add("family-variants", last.place, "one base and one counterfactual", found)
            return None
        base, other = sorted(members, key=lambda member: member.record.variant)
        self._check_labels(base, other)
        self._check_question(base, other)
        self._check_context(base, other)
        return base, other

    def result(self) -> CheckResult:
        """Report everything."""
        return self._findings.result(f"{self._families:,} families")

    def _check_labels(self, base: Located, other: Located) -> None:
        for label in _LABELS:
            expected, found = getattr(base.record, label), getattr(other.record, label)
            if expected != found:
                self._add("family-labels", other.place, f"{label} {expected}", found)

    def _check_question(self, base: Located, other: Located) -> None:
        answers = [[answer.key for answer in each.record.field.answers] for each in (base, other)]
        if answers[0] != answers[1]:
            listed = [", ".join(keys) for keys in answers]
            self._add("answers-differ", other.place, f"the answers {listed[0]}", listed[1])
        elif _question(base) != _question(other):
            diff = word_diff(_question(base), _question(other))
            expected = "the base record's question and criteria, to the byte"
            self._add("question-differs", other.place, expected, "another wording", diff)
        if answers[0] == answers[1] and base.record.reference == other.record.reference:
            key = answers[0][base.record.reference or 0]
            self._add("reference-same", other.place, "another reference than the base's", key)

    def _check_context(self, base: Located, other: Located) -> None:
        differing = _differing_leaves(base.record.state, other.record.state)
        if differing is None:
            found = "other keys, items or values that are no text"
            self._add("context-shape", other.place, "contexts that differ in one leaf", found)
        elif len(differing) > 1:
            found = f"{len(differing)}: {', '.join(_shown(path) for path, _, _ in differing)}"
            expected = "contexts that differ in one string leaf"
            self._add("context-shape", other.place, expected, found, _joined(differing))
        else:
            texts = differing[0][1:] if differing else ("", "")
            diff = word_diff(*texts)
            if same_words(*texts):
                found = "only signs, case or spaces differ" if differing else "the same text"
                self._add("context-same", other.place, "an edited word in the context", found)
            elif diff.edited_words > self._max_edit_words:
                expected = f"an edit of {self._max_edit_words} words at most"
                self._add("edit-too-long", other.place, expected, f"{diff.edited_words}", diff)

    def _add(
        self, code: str, place: Place, expected: str, found: str, diff: WordDiff | None = None
    ) -> None:
        self._findings.add(code, place, expected, found, diff)


def _question(member: Located) -> str:
    """Render all of the input but the context."""
    inputs = member.value["input"]
    rest = {key: item for key, item in inputs.items() if key != "state"}  # type: ignore[union-attr]
    return dumps(rest)


def _differing_leaves(left: Json, right: Json) -> list[tuple[LeafPath, str, str]] | None:
    """Return (path, left, right) of the string leaves that differ; None where more than they do."""
    if left == right and dumps(left) == dumps(right):
        return []
    if _without_texts(left) != _without_texts(right):
        return None
    pairs = zip(string_leaves(left), string_leaves(right), strict=True)
    return [(path, a, b) for (path, a), (_, b) in pairs if a != b]


def _without_texts(value: Json) -> str:
    """Render everything about a value but its texts: keys, order, numbers, nesting."""

    def blank(item: Json) -> Json:
        if isinstance(item, str):
            return ""
        if isinstance(item, list):
            return [blank(each) for each in item]
        if isinstance(item, dict):
            return {key: blank(each) for key, each in item.items()}
        return item

    return dumps(blank(value))


def _shown(path: LeafPath) -> str:
    return ".".join(map(str, path)) or "the text"


def _joined(differing: Sequence[tuple[LeafPath, str, str]]) -> WordDiff:
    return word_diff("\n".join(a for _, a, _ in differing), "\n".join(b for _, _, b in differing))
