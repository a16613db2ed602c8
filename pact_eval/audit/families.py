"""Check "families": two members, one small edit apart, with different references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.audit.context import DataContext
from pact_eval.audit.findings import Check, CheckResult, Collector, FamilyCollector
from pact_eval.data.diff import edited_words, same_words, word_diff
from pact_eval.data.index import Located
from pact_eval.data.records import LeafPath, defaults_of_record
from pact_eval.errors import counted


def pair_of(members: Sequence[Located]) -> tuple[Located, Located] | None:
    """Return the base and the counterfactual record of a family; None if it is not such a pair."""
    by_variant = {member.record.variant: member for member in members}
    if len(members) != 2 or by_variant.keys() != {"base", "counterfactual"}:
        return None
    return by_variant["base"], by_variant["counterfactual"]


class Families(FamilyCollector):
    """Looks at families; counts them, and those that do not say that they are pairs."""

    def __init__(self, context: DataContext) -> None:
        super().__init__("families", context.settings.keep)
        self._max_edit_words = context.settings.max_edit_words

    def family(self, members: Sequence[Located]) -> None:
        """Look at one family of one file; its records are in the order of the file."""
        self.numbers["families"] += 1
        if all("variant" in defaults_of_record(member.record) for member in members):
            self.numbers["unpaired"] += 1
            return
        last, pair = members[-1], pair_of(members)
        if pair is not None:
            self._check_question(*pair)
            self._check_context(*pair)
        elif len(members) != 2:
            self.add("family-size", last.place, "two members", f"{len(members)}")
        else:
            variants = " and ".join(sorted(member.record.variant for member in members))
            self.add("family-variants", last.place, "one base and one counterfactual", variants)

    def _check_question(self, base: Located, other: Located) -> None:
        for label in ("split", "domain", "source_family"):
            expected, actual = getattr(base.record, label), getattr(other.record, label)
            if expected != actual:
                self.add("family-labels", other.place, f"{label} {expected}", actual)
        keys, other_keys = (
            [answer.key for answer in member.record.field.answers] for member in (base, other)
        )
        if keys != other_keys:
            expected, actual = f"the answers {', '.join(keys)}", ", ".join(other_keys)
            self.add("answers-differ", other.place, expected, actual)
            return
        # All of the input except the context.
        question, other_question = (
            dumps({key: item for key, item in member.value["input"].items() if key != "state"})  # type: ignore[union-attr]
            for member in (base, other)
        )
        if question != other_question:
            diff = word_diff(question, other_question)
            expected = "the base record's question and criteria, to the byte"
            self.add("question-differs", other.place, expected, "another wording", diff)
        if base.record.reference == other.record.reference:
            key = keys[base.record.reference or 0]
            self.add("reference-same", other.place, "another reference than the base's", key)

    def _check_context(self, base: Located, other: Located) -> None:
        place = other.place
        differing = _differing_leaves(base.record.state, other.record.state)
        if differing is None:
            actual = "other keys, items or values that are not text"
            self.add("context-shape", place, "contexts that differ in one leaf", actual)
        elif len(differing) > 1:
            paths = (".".join(map(str, path)) for path, _, _ in differing)
            expected = "contexts that differ in one string leaf"
            lefts, rights = zip(*(texts for _, *texts in differing), strict=True)
            diff = word_diff("\n".join(lefts), "\n".join(rights))
            actual = f"{len(differing)}: {', '.join(paths)}"
            self.add("context-shape", place, expected, actual, diff)
        else:
            left, right = differing[0][1:] if differing else ("", "")
            edited = edited_words(left, right)
            if same_words(left, right):
                actual = "only punctuation, case or spaces differ" if differing else "the same text"
                self.add("context-same", place, "an edited word in the context", actual)
            elif edited > self._max_edit_words:
                expected = f"an edit of {self._max_edit_words} words at most"
                self.add("edit-too-long", place, expected, f"{edited}", word_diff(left, right))


def _differing_leaves(
    left: Json, right: Json, path: LeafPath = ()
) -> list[tuple[LeafPath, str, str]] | None:
    """Return (path, left, right) of the differing string leaves; None if other parts differ too.

    Other parts are keys, their order, numbers, and how values nest.
    """
    if isinstance(left, str) and isinstance(right, str):
        return [] if left == right else [(path, left, right)]
    parts: list[tuple[Json, Json, int | str]]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        parts = [*zip(left, right, range(len(left)), strict=True)]
    elif isinstance(left, dict) and isinstance(right, dict) and [*left] == [*right]:
        parts = [*zip(left.values(), right.values(), left, strict=True)]
    else:
        return [] if dumps(left) == dumps(right) else None  # 1, 1.0 and true differ
    leaves = []
    for one, other, key in parts:
        inside = _differing_leaves(one, other, (*path, key))
        if inside is None:
            return None
        leaves += inside
    return leaves


def _run(_: DataContext, families: Collector) -> CheckResult:
    n_families, unpaired = families.numbers["families"], families.numbers["unpaired"]
    skipped = None
    if unpaired:
        them = (
            "no record" if unpaired == n_families else f"{counted(unpaired, 'group')} of which none"
        )
        skipped = f"{them} says that it belongs to a pair"
    return families.result(counted(n_families, "family"), skipped=skipped)


CHECK: Final[Check[DataContext]] = Check(
    name="families",
    question="Does each family have two members, one small edit apart, with different references?",
    run=_run,
    look=Families,
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
