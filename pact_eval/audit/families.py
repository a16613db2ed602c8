"""Check "families": two members, one small edit apart, with different references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.diff import WordDiff, edited_words, same_words, word_diff
from pact_eval.data.index import Located
from pact_eval.data.records import LeafPath, defaults_of_record
from pact_eval.errors import counted

_LABELS = ("split", "domain", "source_family")


def check_families(context: DataContext) -> CheckResult:
    """Check the members of every family of every file.

    Args:
        context: the dataset; its records are read again.

    Returns:
        The result.

    Raises:
        InputError: a file has changed since the index was built.
    """
    findings = context.collector("families")
    n_families = unpaired = 0
    for part in context.looked("families", _look):
        findings.join(part.findings)
        n_families += part.families
        unpaired += part.unpaired
    result = findings.result(counted(n_families, "family"))
    if not unpaired:
        return result
    all_of_them = (
        "no record" if unpaired == n_families else f"{counted(unpaired, 'group')} of which none"
    )
    return replace(result, skipped=f"{all_of_them} says that it belongs to a pair")


def _look(context: DataContext) -> Callable[[], _FamilyCheck]:
    return partial(_FamilyCheck, context.settings.keep, context.settings.max_edit_words)


def pair_of(members: Sequence[Located]) -> tuple[Located, Located] | None:
    """Return the base and the counterfactual record of a family; None if it is not such a pair."""
    by_variant = {member.record.variant: member for member in members}
    if len(members) != 2 or by_variant.keys() != {"base", "counterfactual"}:
        return None
    return by_variant["base"], by_variant["counterfactual"]


class _FamilyCheck:
    """Looks at families, and counts them."""

    def __init__(self, keep: int, max_edit_words: int) -> None:
        self.findings = Collector("families", keep)
        self._add = self.findings.add
        self.families = 0
        self.unpaired = 0
        self._max_edit_words = max_edit_words

    def family(self, members: Sequence[Located]) -> None:
        """Look at one family of one file; its records are in the order of the file."""
        self.families += 1
        if all("variant" in defaults_of_record(member.record) for member in members):
            self.unpaired += 1
            return
        last = members[-1]
        pair = pair_of(members)
        if pair is not None:
            self._check_labels(*pair)
            self._check_question(*pair)
            self._check_context(*pair)
        elif len(members) != 2:
            self._add("family-size", last.place, "two members", f"{len(members)}")
        else:
            variants = " and ".join(sorted(member.record.variant for member in members))
            self._add("family-variants", last.place, "one base and one counterfactual", variants)

    def _check_labels(self, base: Located, other: Located) -> None:
        for label in _LABELS:
            expected, actual = getattr(base.record, label), getattr(other.record, label)
            if expected != actual:
                self._add("family-labels", other.place, f"{label} {expected}", actual)

    def _check_question(self, base: Located, other: Located) -> None:
        answers = [
            [answer.key for answer in member.record.field.answers] for member in (base, other)
        ]
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
            actual = "other keys, items or values that are not text"
            self._add("context-shape", other.place, "contexts that differ in one leaf", actual)
        elif len(differing) > 1:
            actual = f"{len(differing)}: {', '.join(_dotted(path) for path, _, _ in differing)}"
            expected = "contexts that differ in one string leaf"
            self._add("context-shape", other.place, expected, actual, _join_diffs(differing))
        else:
            texts = differing[0][1:] if differing else ("", "")
            edited = edited_words(*texts)
            if same_words(*texts):
                actual = "only punctuation, case or spaces differ" if differing else "the same text"
                self._add("context-same", other.place, "an edited word in the context", actual)
            elif edited > self._max_edit_words:
                expected = f"an edit of {self._max_edit_words} words at most"
                self._add("edit-too-long", other.place, expected, f"{edited}", word_diff(*texts))


def _question(member: Located) -> str:
    """Render all of the input except the context."""
    inputs = member.value["input"]
    rest = {key: item for key, item in inputs.items() if key != "state"}  # type: ignore[union-attr]
    return dumps(rest)


_Differing = list[tuple[LeafPath, str, str]]


def _differing_leaves(left: Json, right: Json) -> _Differing | None:
    """Return (path, left, right) of the differing string leaves; None if other parts differ too.

    Other parts are keys, their order, numbers, and how values nest.
    """
    differing: _Differing = []
    return differing if _compare(left, right, (), differing) else None


def _compare(left: Json, right: Json, path: LeafPath, differing: _Differing) -> bool:
    """Note the differing string leaves; return whether the rest is equal."""
    if isinstance(left, str) and isinstance(right, str):
        if left != right:
            differing.append((path, left, right))
        return True
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(
            _compare(a, b, (*path, place), differing)
            for place, (a, b) in enumerate(zip(left, right, strict=True))
        )
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(
            _compare(item, right[key], (*path, key), differing) for key, item in left.items()
        )
    return dumps(left) == dumps(right)  # 1, 1.0 and true differ


def _dotted(path: LeafPath) -> str:
    return ".".join(map(str, path))


def _join_diffs(differing: Sequence[tuple[LeafPath, str, str]]) -> WordDiff:
    return word_diff("\n".join(a for _, a, _ in differing), "\n".join(b for _, _, b in differing))


CHECK: Final[Check[DataContext]] = Check(
    name="families",
    question="Does each family have two members, one small edit apart, with different references?",
    run=check_families,
    look=_look,
    codes={
        "family-size": ("error", "A pair does not have exactly two members."),
        "family-variants": ("error", "The members are not one base and one counterfactual."),
        "family-labels": ("error", "The members differ in split, domain or source."),
        "answers-differ": ("error", "The members' answers differ, or their order."),
        "question-differs": ("error", "The members' question or criteria differ."),
        "reference-same": ("error", "Both members have the same right answer."),
        "context-same": ("error", "The members' contexts do not differ in any word."),
        "context-shape": ("error", "The contexts differ in more than the text of one leaf."),
        "edit-too-long": ("error", "The edit touches more words than allowed."),
    },
)
