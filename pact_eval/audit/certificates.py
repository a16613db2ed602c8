"""Check "certificates": focus sentences that occur in the context and can be deleted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import polars as pl

from pact_eval._json import Json, cut, dumps
from pact_eval.audit.context import DataContext
from pact_eval.audit.families import pair_of
from pact_eval.audit.findings import Check, CheckResult, Collector
from pact_eval.data.ablation import ablate, find_sentence, occurrences
from pact_eval.data.certificates import Certificate, FocusSentence, parse_certificate
from pact_eval.data.diff import WordDiff, word_diff, words
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


def check_certificates(context: DataContext) -> CheckResult:
    """Check the certificates of every pair; families that are not pairs have other findings.

    Args:
        context: the dataset; its records are read again. A file without any certificate gets one
            finding, a note; if all files lack them, the check is skipped.

    Returns:
        The result, with the coverage of all records and families as `measured`.

    Raises:
        InputError: a file has changed since the index was built.
    """
    index, findings = context.index, context.collector("certificates")
    bare = _bare_files(index)
    for name in sorted(bare):
        place = Place(name)
        findings.add("certificates-none", place, "certificates that verify the pairs", "none")
    ablated = pairs = 0
    for part in context.looked("certificates", _look):
        findings.join(part.findings)
        ablated, pairs = ablated + part.ablated, pairs + part.pairs
    n_records = sum(facts.rows for facts in index.facts)
    n_families = index.frame.select("file", "family").n_unique()
    coverage = Coverage(ablated, n_records, pairs, n_families)
    result = findings.result(counted(n_families, "family"), coverage)
    skipped = "no record states its evidence" if len(bare) == len(index.files) else None
    return replace(result, skipped=skipped)


def _look(context: DataContext) -> Callable[[], _CertificateCheck]:
    return partial(_CertificateCheck, context.settings.keep, _bare_files(context.index))


def _bare_files(index: Index) -> set[str]:
    """Return the names of the files of which no record has a certificate."""
    certified = dict(index.frame.group_by("file").agg(pl.col("certified").any()).iter_rows())
    return {file.name for n, file in enumerate(index.files) if not certified.get(n, True)}


class _CertificateCheck:
    """Counts, over the pairs that it is given, the contexts ablated and the pairs certified."""

    def __init__(self, keep: int, bare: Collection[str]) -> None:
        self.findings = Collector("certificates", keep)
        self.ablated = self.pairs = 0
        self._bare = bare

    def family(self, members: Sequence[Located]) -> None:
        """Look at one family, if it is a pair and its file has certificates."""
        pair = pair_of(members)
        if pair is not None and pair[0].file.name not in self._bare:
            self._pair(*pair)

    def _pair(self, base: Located, other: Located) -> None:
        """Look at the base and the counterfactual record of one family."""
        before = self.findings.errors
        certificates = [self._certificate(member) for member in (base, other)]
        if certificates[0] is not None and certificates[1] is not None:
            self._check_pair(base, other, certificates[0], certificates[1])
            self.pairs += self.findings.errors == before

    def _certificate(self, member: Located) -> Certificate | None:
        value = member.record.certificate
        if value is None:
            self._add("certificate-missing", member, "an evidence certificate", "none")
            return None
        try:
            certificate = parse_certificate(value)
        except ValueError as error:
            self._add("certificate-malformed", member, "a complete certificate", str(error))
            return None
        if (failed := _failed_necessity(value)) is not None:
            self._add("necessity-failed", member, "necessity checks that passed", failed)
        return certificate

    def _check_pair(
        self, base: Located, other: Located, certificate: Certificate, of_other: Certificate
    ) -> None:
        if _shared_content(certificate) != _shared_content(of_other):
            expected = "the focus sentences and fact of the base record's certificate"
            self._add("certificates-differ", other, expected, "other ones")
            return
        self._check_facts(other, certificate, of_other)
        self._check_focus(base, certificate)
        for member, own in ((base, certificate), (other, of_other)):
            ablated = [self._check_sentence(member, sentence) for sentence in own.focus]
            self.ablated += all(ablated)
        try:
            changed = certificate.changed
        except ValueError as error:
            self._add("no-changed-sentence", base, "one changed focus sentence", str(error))
            return
        self._check_edit(base, other, changed)

    def _check_focus(self, base: Located, certificate: Certificate) -> None:
        """Check that there are two focus sentences, neither trivial nor part of the other."""
        wordings = {text for span in certificate.focus for text in (span.base, span.counterfactual)}
        for text in sorted(wordings):
            if sum(word[0].isalnum() for word in words(text)) < _FEWEST_WORDS:
                self._add("focus-trivial", base, f"a sentence of {_FEWEST_WORDS} words", repr(text))
        left, right = (folded(span.base) for span in certificate.focus)
        if left in right or right in left:
            spans = f"{certificate.focus[0].base!r} and {certificate.focus[1].base!r}"
            self._add("focus-overlap", base, "two sentences, neither part of the other", spans)

    def _check_facts(self, other: Located, certificate: Certificate, of_other: Certificate) -> None:
        atom = certificate.focus_atom
        states = [member.fact_states.get(atom, "none") for member in (certificate, of_other)]
        if sorted(states) != ["refuted", "supported"]:
            expected = f"{atom} supported in one member, refuted in the other"
            self._add("fact-not-flipped", other, expected, f"{states[0]} and {states[1]}")

    def _check_sentence(self, member: Located, sentence: FocusSentence) -> bool:
        """Find a focus sentence in one member and delete it; return whether both succeeded."""
        state = member.record.state
        own = sentence.base if member.record.variant == "base" else sentence.counterfactual
        if sentence.quoted not in (sentence.base, sentence.counterfactual):
            self._add("focus-quote", member, f"{own!r} quoted as evidence", repr(sentence.quoted))
        found_by = find_sentence(state, own, sentence.path)
        if found_by is None:
            return self._check_other_wording(member, sentence, own)
        if found_by != "path":
            path = ".".join(map(str, sentence.path)) or "(empty)"
            self._add("focus-path", member, f"{own!r} at {path}", f"elsewhere ({found_by})")
        if (n := occurrences(state, own)) > 1:
            self._add("focus-repeated", member, f"{own!r} once", f"{n} times")
        return self._check_ablated(member, sentence)

    def _check_other_wording(self, member: Located, sentence: FocusSentence, own: str) -> bool:
        """Look for the wording of the other member, the last place where the sentence may be."""
        other = sentence.counterfactual if own == sentence.base else sentence.base
        state = member.record.state
        if find_sentence(state, other, sentence.path) is None:
            self._add("focus-not-found", member, f"the sentence {own!r}", _nearest(state, own))
            return False
        self._add("focus-other-wording", member, f"the sentence {own!r}", f"{other!r}")
        return self._check_ablated(member, sentence)

    def _check_ablated(self, member: Located, sentence: FocusSentence) -> bool:
        """Delete the sentence and check that nothing like it is left."""
        try:
            ablation = ablate(member.record, sentence)
        except ValueError as error:
            self._add("not-ablated", member, "a context without the sentence", str(error))
            return False
        left = folded(context_text(ablation.state))
        if not left:
            self._add("not-ablated", member, "a context without the sentence", "nothing is left")
            return False
        if _bare(ablation.removed) in left:
            actual = f"another spelling of {ablation.removed!r} is left"
            self._add("not-ablated", member, "a context without the sentence", actual)
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
            self._add("edit-elsewhere", other, expected, "another edit", diff)
        elif _still_holds(" ".join(contexts[1]), old, new):
            expected = f"{new!r} in place of {old!r}"
            self._add("old-wording-remains", other, expected, "both wordings")

    def _add(
        self, code: str, member: Located, expected: str, actual: str, diff: WordDiff | None = None
    ) -> None:
        self.findings.add(code, member.place, expected, actual, diff)


def _shared_content(certificate: Certificate) -> tuple[object, ...]:
    """Return what both members' certificates must agree on."""
    sentences = sorted((span.base, span.counterfactual) for span in certificate.focus)
    return certificate.focus_atom, certificate.atoms, sentences


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


CHECK: Final[Check[DataContext]] = Check(
    name="certificates",
    question="Do the focus sentences occur in the context, and can they be deleted?",
    run=check_certificates,
    look=_look,
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
        "old-wording-remains": (
            "error",
            "The counterfactual still holds the base wording of the changed sentence.",
        ),
        "not-ablated": ("error", "The sentence still occurs in the context without it."),
        "fact-not-flipped": (
            "error",
            "The focus fact is not supported in one member and refuted in the other.",
        ),
        "necessity-failed": ("error", "The evidence says that its necessity checks failed."),
        "focus-other-wording": (
            "warning",
            "A focus sentence occurs in the context in the other member's wording.",
        ),
        "certificates-none": ("note", "No record of a file states its evidence."),
        "focus-quote": (
            "warning",
            "The evidence quotes a text that matches neither wording of its sentence.",
        ),
        "focus-path": (
            "note",
            "The path does not lead to the focus sentence; it was found otherwise.",
        ),
        "focus-repeated": ("note", "A focus sentence occurs more than once in the context."),
    },
)
