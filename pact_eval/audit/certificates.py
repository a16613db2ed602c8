"""Check "certificates": focus sentences that occur in the context and can be deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from pact_eval._json import Json, cut, dumps
from pact_eval.audit.context import DataContext
from pact_eval.audit.families import pair_of
from pact_eval.audit.findings import Check, CheckResult, Collector, FamilyCollector
from pact_eval.data.ablation import ablate, find_sentence, occurrences
from pact_eval.data.certificates import Certificate, FocusSentence, parse_certificate
from pact_eval.data.diff import word_diff, words
from pact_eval.data.index import Index, Located
from pact_eval.data.records import context_text, folded, leaf_texts
from pact_eval.errors import Place, counted

_FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Coverage:
    """Number of contexts that could be built without their focus sentences.

    Attributes:
        ablated: records from which each of the two sentences can be deleted.
        records: lines of the dataset, valid or not.
        pairs: families that are pairs with no error in their certificates.
        families: families of the dataset.
    """

    ablated: int
    records: int
    pairs: int
    families: int

    @property
    def text(self) -> str:
        """What was measured, in a few words."""
        contexts = f"{self.ablated:,} of {self.records:,} contexts ablated"
        return f"{contexts}, {self.pairs:,} of {self.families:,} pairs certified"


def _bare_files(index: Index) -> set[str]:
    """Return the names of the files of which no record has a certificate."""
    certified = dict(index.frame.group_by("file").agg(pl.col("certified").any()).iter_rows())
    return {file.name for n, file in enumerate(index.files) if not certified.get(n, True)}


class _Certificates(FamilyCollector):
    """Counts, over the pairs of files with certificates, contexts ablated and pairs certified."""

    def __init__(self, context: DataContext) -> None:
        super().__init__("certificates", context.settings.keep)
        self._bare = _bare_files(context.index)

    def family(self, members: Sequence[Located]) -> None:
        """Look at one family, if it is a pair and its file has certificates."""
        pair = pair_of(members)
        if pair is None or pair[0].file.name in self._bare:
            return
        before = self.errors
        certificate, of_other = map(self._certificate, pair)
        if certificate is not None and of_other is not None:
            self._check_pair(*pair, certificate, of_other)
            self.numbers["pairs"] += self.errors == before

    def _certificate(self, member: Located) -> Certificate | None:
        value, place = member.record.certificate, member.place
        if value is None:
            self.add("certificate-missing", place, "an evidence certificate", "none")
            return None
        try:
            certificate = parse_certificate(value)
        except ValueError as error:
            self.add("certificate-malformed", place, "a complete certificate", str(error))
            return None
        if (failed := _failed_necessity(value)) is not None:
            self.add("necessity-failed", place, "necessity checks that passed", failed)
        return certificate

    def _check_pair(
        self, base: Located, other: Located, certificate: Certificate, of_other: Certificate
    ) -> None:
        shared, of_both = (  # what both must agree on
            (
                own.focus_atom,
                own.atoms,
                sorted((span.base, span.counterfactual) for span in own.focus),
            )
            for own in (certificate, of_other)
        )
        if shared != of_both:
            expected = "the focus sentences and fact of the base record's certificate"
            self.add("certificates-differ", other.place, expected, "other ones")
            return
        atom = certificate.focus_atom
        states = [own.fact_states.get(atom, "none") for own in (certificate, of_other)]
        if sorted(states) != ["refuted", "supported"]:
            expected = f"{atom} supported in one member, refuted in the other"
            self.add("fact-not-flipped", other.place, expected, f"{states[0]} and {states[1]}")
        for text in sorted({text for pair in shared[2] for text in pair}):
            if sum(word[0].isalnum() for word in words(text)) < _FEWEST_WORDS:
                expected = f"a sentence of {_FEWEST_WORDS} words"
                self.add("focus-trivial", base.place, expected, repr(text))
        left, right = (folded(span.base) for span in certificate.focus)
        if left in right or right in left:
            spans = " and ".join(repr(span.base) for span in certificate.focus)
            expected = "two sentences, neither part of the other"
            self.add("focus-overlap", base.place, expected, spans)
        for member, own in ((base, certificate), (other, of_other)):
            ablated = [self._check_sentence(member, sentence) for sentence in own.focus]
            self.numbers["ablated"] += all(ablated)
        try:
            changed = certificate.changed
        except ValueError as error:
            expected = "one changed focus sentence"
            self.add("no-changed-sentence", base.place, expected, str(error))
            return
        self._check_edit(base, other, changed)

    def _check_sentence(self, member: Located, sentence: FocusSentence) -> bool:
        """Find a focus sentence in one member and delete it; return whether both succeeded.

        The wording of the other member is the last place where the sentence may be.
        """
        state, place = member.record.state, member.place
        wordings = sentence.base, sentence.counterfactual
        own, other = wordings if member.record.variant == "base" else wordings[::-1]
        if sentence.quoted not in wordings:
            self.add("focus-quote", place, f"{own!r} quoted as evidence", repr(sentence.quoted))
        found_by = find_sentence(state, own, sentence.path)
        if found_by is None:
            if find_sentence(state, other, sentence.path) is None:
                self.add("focus-not-found", place, f"the sentence {own!r}", _nearest(state, own))
                return False
            self.add("focus-other-wording", place, f"the sentence {own!r}", f"{other!r}")
        elif found_by != "path":
            path = ".".join(map(str, sentence.path)) or "(empty)"
            self.add("focus-path", place, f"{own!r} at {path}", f"elsewhere ({found_by})")
        if found_by is not None and (n := occurrences(state, own)) > 1:
            self.add("focus-repeated", place, f"{own!r} once", f"{n} times")
        return self._check_ablated(member, sentence)

    def _check_ablated(self, member: Located, sentence: FocusSentence) -> bool:
        """Delete the sentence and check that nothing like it is left."""
        try:
            ablation = ablate(member.record, sentence)
            left = folded(context_text(ablation.state))
            if not left:
                raise ValueError("nothing is left")
            if _bare(ablation.removed) in left:
                raise ValueError(f"another spelling of {ablation.removed!r} is left")
        except ValueError as error:
            self.add("not-ablated", member.place, "a context without the sentence", str(error))
            return False
        return True

    def _check_edit(self, base: Located, other: Located, changed: FocusSentence) -> None:
        """Check that the two contexts differ by the edit of the certificate and nothing else."""
        old, new = changed.base, changed.counterfactual
        contexts = [leaf_texts(member.record.state) for member in (base, other)]
        differing = [(a, b) for a, b in zip(*contexts, strict=False) if a != b]
        if len(contexts[0]) != len(contexts[1]) or any(
            not _is_edit(a, b, old, new) for a, b in differing
        ):
            diff = word_diff(context_text(base.record.state), context_text(other.record.state))
            expected = f"{old!r} replaced by {new!r}, nothing else"
            self.add("edit-elsewhere", other.place, expected, "another edit", diff)
        elif _still_holds(" ".join(contexts[1]), old, new):
            expected = f"{new!r} in place of {old!r}"
            self.add("old-wording-remains", other.place, expected, "both wordings")


def _is_edit(before: str, after: str, old: str, new: str) -> bool:
    """Return whether replacing some of the old wording gives the text after the edit."""
    first, *parts = before.split(old)
    if not parts or not after.startswith(first):
        return False
    ends = {len(first)}  # possible ends in the text after the edit, part by part
    for part in parts:
        ends = {
            end + len(wording) + len(part)
            for end in ends
            for wording in (old, new)
            if after.startswith(wording + part, end)
        }
    return len(after) in ends


def _still_holds(text: str, old: str, new: str) -> bool:
    """Return whether a text holds the old wording, in any spelling, as well as the new one."""
    left, before, after = folded(text), _bare(old), _bare(new)
    return before in (left.replace(after, "") if before in after else left)


def _bare(sentence: str) -> str:
    """Fold a sentence and drop the punctuation at its end."""
    return folded(sentence).rstrip(".!?;:,\"'”’ ")


def _failed_necessity(value: Mapping[str, Json]) -> str | None:
    """Say which necessity check failed; None if all that are recorded passed."""
    if "necessity_checks_passed" in value and value["necessity_checks_passed"] is not True:
        return f"necessity_checks_passed: {dumps(value['necessity_checks_passed'])}"
    checks = value.get("necessity_checks")
    for name, state in checks.items() if isinstance(checks, dict) else ():
        if isinstance(state, str) and state != "unknown":
            return f"necessity_checks.{name}: {state}"
    return None


def _nearest(state: Json, wording: str) -> str:
    """Name the leaf that shares most words with a sentence that was not found."""
    wording_words = set(wording.split())
    best = max(
        leaf_texts(state), key=lambda text: len(wording_words & set(text.split())), default=""
    )
    if not wording_words & set(best.split()):
        return "nothing like it"
    return f"nearest: {cut(best, 160)}"


def check_certificates(context: DataContext, certificates: Collector) -> CheckResult:
    """Conclude on the certificates of all pairs; families that are not pairs have other findings.

    Args:
        context: the dataset. A file without any certificate gets one finding, a note; if all files
            lack them, the check is skipped.
        certificates: has seen every family.

    Returns:
        The result, with the coverage of all records and families as `measured`.
    """
    index, bare = context.index, _bare_files(context.index)
    for name in sorted(bare):
        expected = "certificates that verify the pairs"
        certificates.add("certificates-none", Place(name), expected, "none")
    n_families = index.frame.select("file", "family").n_unique()
    coverage = Coverage(
        ablated=certificates.numbers["ablated"],
        records=sum(facts.rows for facts in index.facts),
        pairs=certificates.numbers["pairs"],
        families=n_families,
    )
    skipped = "no record states its evidence" if len(bare) == len(index.files) else None
    return certificates.result(counted(n_families, "family"), coverage, skipped=skipped)


CHECK: Final[Check[DataContext]] = Check(
    name="certificates",
    question="Do the focus sentences occur in the context, and can they be deleted?",
    run=check_certificates,
    look=_Certificates,
    cost=0.5,
    codes={
        "certificate-missing": ("error", "A record of a pair states no evidence."),
        "certificate-malformed": ("error", "Stated evidence lacks a part, or it has another type."),
        "certificates-differ": ("error", "The two members state evidence of different pairs."),
        "no-changed-sentence": ("error", "Not exactly one of the two focus sentences is changed."),
        "focus-trivial": ("error", "A focus sentence has fewer than three words."),
        "focus-overlap": ("error", "One focus sentence is part of the other."),
        "focus-not-found": ("error", "A focus sentence does not occur in the context."),
        "edit-elsewhere": ("error", "The edit is not the one that the evidence describes."),
        "old-wording-remains": ("error", "The counterfactual still has the base's wording."),
        "not-ablated": ("error", "The sentence still occurs in the context without it."),
        "fact-not-flipped": ("error", "The fact is not supported in one, refuted in the other."),
        "necessity-failed": ("error", "The evidence says that its necessity checks failed."),
        "focus-other-wording": ("warning", "A focus sentence has the other member's wording."),
        "certificates-none": ("note", "No record of a file states its evidence."),
        "focus-quote": ("warning", "The quoted text is neither wording of its sentence."),
        "focus-path": ("note", "The path does not lead to the focus sentence."),
        "focus-repeated": ("note", "A focus sentence occurs more than once in the context."),
    },
)
