"""Check "certificates": do the focus sentences stand in the context, and can they be deleted?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from pact_eval._json import Json, dumps
from pact_eval.audit.findings import CheckResult, Collector
from pact_eval.data import (
    Certificate,
    FocusSentence,
    Index,
    Located,
    WordDiff,
    ablate,
    context_text,
    find_sentence,
    folded,
    occurrences,
    parse_certificate,
    string_leaves,
    word_diff,
    words,
)
from pact_eval.errors import Place

__all__ = ["CertificateCheck", "Coverage"]


_FEWEST_WORDS = 3


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many contexts could be built without their focus sentences.

    Attributes:
        ablated: records from which each of the two sentences can be deleted.
        records: records of the dataset, healthy or not.
        pairs: families that are pairs in which everything about the certificates holds.
        families: families of the dataset.
    """

    ablated: int
    records: int
    pairs: int
    families: int


class CertificateCheck:
    """Looks at one pair after the other.

    Args:
        findings: collects what is wrong.
        index: the dataset; files of which no record has a certificate are told once.
    """

    def __init__(self, findings: Collector, index: Index) -> None:
        self._findings = findings
        certified = dict(index.frame.group_by("file").agg(pl.col("certified").any()).iter_rows())
        self._bare = {file.name for n, file in enumerate(index.files) if not certified.get(n, True)}
        for name in sorted(self._bare):
            place = Place(name)
            findings.add("certificates-none", place, "certificates that verify the pairs", "none")
        self._records = sum(facts.rows for facts in index.facts)
        self._families = index.frame.select("file", "family").n_unique()
        self._ablated = self._pairs = 0

    def pair(self, base: Located, other: Located) -> None:
        """Look at the base and the counterfactual record of one family."""
        if base.file.name in self._bare:
            return
        before = self._findings.errors
        certificates = [self._certificate(member) for member in (base, other)]
        if certificates[0] is not None and certificates[1] is not None:
            self._check_pair(base, other, certificates[0], certificates[1])
            self._pairs += self._findings.errors == before

    def result(self) -> CheckResult:
        """Report everything, with the coverage of all records and families as `measured`."""
        coverage = Coverage(self._ablated, self._records, self._pairs, self._families)
        return self._findings.result(f"{self._families:,} families", coverage)

    def _certificate(self, member: Located) -> Certificate | None:
        value = member.record.certificate
        if value is None:
            self._add("certificate-missing", member, "an evidence certificate", "none")
            return None
        try:
            certificate = parse_certificate(value)
        except ValueError as error:
            self._add("certificate-malformed", member, "a whole certificate", str(error))
            return None
        if (failed := _failed_necessity(value)) is not None:
            self._add("necessity-failed", member, "necessity checks that passed", failed)
        return certificate

    def _check_pair(
        self, base: Located, other: Located, certificate: Certificate, of_other: Certificate
    ) -> None:
        if _told(certificate) != _told(of_other):
            expected = "the focus sentences and fact of the base record's certificate"
            self._add("certificates-differ", other, expected, "other ones")
            return
        self._check_facts(other, certificate, of_other)
        self._check_focus(base, certificate)
        for member, told in ((base, certificate), (other, of_other)):
            ablated = [self._check_sentence(member, sentence) for sentence in told.focus]
            self._ablated += all(ablated)
        try:
            changed = certificate.changed
        except ValueError as error:
            self._add("no-changed-sentence", base, "one changed focus sentence", str(error))
            return
        self._check_edit(base, other, changed)

    def _check_focus(self, base: Located, certificate: Certificate) -> None:
        """See that the focus sentences are sentences, and two of them."""
        wordings = {text for each in certificate.focus for text in (each.base, each.counterfactual)}
        for text in sorted(wordings):
            if sum(word[0].isalnum() for word in words(text)) < _FEWEST_WORDS:
                self._add("focus-trivial", base, f"a sentence of {_FEWEST_WORDS} words", repr(text))
        left, right = (folded(each.base) for each in certificate.focus)
        if left in right or right in left:
            found = f"{certificate.focus[0].base!r} and {certificate.focus[1].base!r}"
            self._add("focus-overlap", base, "two sentences, neither part of the other", found)

    def _check_facts(self, other: Located, certificate: Certificate, of_other: Certificate) -> None:
        atom = certificate.focus_atom
        states = [each.fact_states.get(atom, "none") for each in (certificate, of_other)]
        if sorted(states) != ["refuted", "supported"]:
            expected = f"{atom} supported in one member, refuted in the other"
            self._add("fact-not-flipped", other, expected, f"{states[0]} and {states[1]}")

    def _check_sentence(self, member: Located, sentence: FocusSentence) -> bool:
        """Find a focus sentence in one member and delete it; tell whether both could be done."""
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
        """Look for the wording of the other member, the last place where a sentence may stand."""
        other = sentence.counterfactual if own == sentence.base else sentence.base
        state = member.record.state
        if find_sentence(state, other, sentence.path) is None:
            self._add("focus-not-found", member, f"the sentence {own!r}", _nearest(state, own))
            return False
        self._add("focus-other-wording", member, f"the sentence {own!r}", f"{other!r}")
        return self._check_ablated(member, sentence)

    def _check_ablated(self, member: Located, sentence: FocusSentence) -> bool:
        """Delete the sentence, and see that nothing like it is left."""
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
            found = f"another spelling of {ablation.removed!r} is left"
            self._add("not-ablated", member, "a context without the sentence", found)
            return False
        return True

    def _check_edit(self, base: Located, other: Located, changed: FocusSentence) -> None:
        """See that the two contexts differ by the edit that the certificate tells, and no other."""
        old, new = changed.base, changed.counterfactual
        contexts = [[t for _, t in string_leaves(each.record.state)] for each in (base, other)]
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
        self, code: str, member: Located, expected: str, found: str, diff: WordDiff | None = None
    ) -> None:
        self._findings.add(code, member.place, expected, found, diff)


def _told(certificate: Certificate) -> tuple[object, ...]:
    """Return what both members' certificates must agree on."""
    sentences = sorted((each.base, each.counterfactual) for each in certificate.focus)
    return certificate.focus_atom, certificate.atoms, sentences


def _is_edit(before: str, after: str, old: str, new: str) -> bool:
    """Tell whether replacing some occurrences of the old wording gives the text after the edit."""
    first, *parts = before.split(old)
    if not parts or not after.startswith(first):
        return False
    ends = {len(first)}  # where the text after the edit may stand, part by part
    for part in parts:
        ends = {
            end + len(wording) + len(part)
            for end in ends
            for wording in (old, new)
            if after.startswith(wording + part, end)
        }
    return len(after) in ends


def _still_holds(text: str, old: str, new: str) -> bool:
    """Tell whether a text holds the old wording, in any spelling, beside the new one."""
    left, before, after = folded(text), _bare(old), _bare(new)
    return before in (left.replace(after, "") if before in after else left)


def _bare(sentence: str) -> str:
    """Fold a sentence, without the signs at its end."""
    return folded(sentence).rstrip(".!?;:,\"'”’ ")


def _failed_necessity(value: Mapping[str, Json]) -> str | None:
    """Say which necessity check failed; None where all that are told passed."""
    if "necessity_checks_passed" in value and value["necessity_checks_passed"] is not True:
        return f"necessity_checks_passed: {dumps(value['necessity_checks_passed'])}"
    checks = value.get("necessity_checks")
    for name, state in checks.items() if isinstance(checks, dict) else ():
        if isinstance(state, str) and state != "unknown":
            return f"necessity_checks.{name}: {state}"
    return None


def _nearest(state: Json, wording: str) -> str:
    """Name the leaf that shares most words with a sentence that is not there."""
    wanted = set(wording.split())
    texts = [text for _, text in string_leaves(state)]
    best = max(texts, key=lambda text: len(wanted & set(text.split())), default="")
    if not wanted & set(best.split()):
        return "nothing like it"
    return f"nearest: {best if len(best) <= 160 else best[:157] + '...'}"
