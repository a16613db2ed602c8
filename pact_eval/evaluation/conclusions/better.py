"""Conclusion on which of two runs, or of two arms over their seeds, is better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pact_eval._hints import readable_hints
from pact_eval.evaluation.answers import ComparisonAnswer, DecodedComparison
from pact_eval.evaluation.comparison import MetricComparison
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Tone, Unchecked
from pact_eval.evaluation.decoding import DecodingName
from pact_eval.evaluation.marks import Evidence, adjusted, sign_of
from pact_eval.evaluation.registry import ANSWER_MASS
from pact_eval.evaluation.run_rates import COMPARED, HEADLINE
from pact_eval.stats.equivalence import EquivalenceVerdict, equivalence_verdict
from pact_eval.stats.estimate import Estimate

if TYPE_CHECKING:  # a report of one run needs no arms
    from pact_eval.evaluation.arms.differences import ArmDifference

BetterStatus = Literal["better", "worse", "equivalent", "not shown", "cannot be compared"]
"""Of the first run or arm. equivalent: only with a margin."""


@dataclass(frozen=True)
class Claim:
    """Finding on the difference in one metric under one decoding.

    Attributes:
        metric: accuracy, pair_accuracy or answer_mass.
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0, and for the mean over repeats.
        repeats: number of repeats per item; 1 if the views are not repeats.
        status: better or worse if the difference is shown.
        difference: the first minus the second, with its interval.
        evidence: the test behind the status, adjusted with all that one first line may name.
        verdict: the difference compared with the margin; None without a margin.
    """

    metric: str
    decoding: DecodingName
    k: int
    repeats: int
    status: BetterStatus
    difference: Estimate
    evidence: Evidence
    verdict: EquivalenceVerdict | None = None

    @property
    def shown(self) -> bool:
        """Whether one of the two is shown to be better."""
        return self.status in ("better", "worse")


@dataclass(frozen=True, kw_only=True, repr=False)
class BetterConclusion(Conclusion):
    """Conclusion on whether the first run, or arm, is better than the second.

    Attributes:
        status: of the claim that the first line names, see `leading`.
        left: name of the first run or arm.
        right: name of the second.
        claims: accuracy and pair accuracy by decoding, the decoding of the settings first; then the
            answer mass, which is the mean over all views.
        seeds: number of seeds that both arms have; 1 for two runs.
        generalises_to: what an interval over seeds is about; "" for two runs.
        detectable: smallest difference in accuracy that the items show with 80% power; NaN over
            seeds, without an interval, and if the families are worth fewer than 30 of equal size.
        needed: number of such items that would show a small difference, or None.
        reason: why the two cannot be compared, or None.
    """

    question: ClassVar[Question] = "better"
    tones: ClassVar[Mapping[str, Tone]] = {
        "better": "good",
        "worse": "bad",
        "equivalent": "good",
        "not shown": "open",
        "cannot be compared": "open",
    }

    status: BetterStatus
    left: str
    right: str
    claims: tuple[Claim, ...] = ()
    seeds: int = 1
    generalises_to: str = ""
    detectable: float = math.nan
    needed: int | None = None
    reason: str | None = None

    def of(self, metric: str) -> tuple[Claim, ...]:
        """Return the claims about a metric: view 0, or the mean over repeats, then K views."""
        claims = (claim for claim in self.claims if claim.metric == metric)
        return tuple(sorted(claims, key=lambda claim: claim.k))

    @property
    def by_metric(self) -> dict[str, Claim]:
        """The claims by metric, under the decoding of the settings."""
        return {
            claim.metric: claim
            for claim in self.claims
            if claim.decoding == self.claims[0].decoding or claim.metric == ANSWER_MASS
        }

    @property
    def leading(self) -> Claim | None:
        """The claim on accuracy to name first; None if the two cannot be compared.

        It is that of the settings, unless only the other decoding shows a difference.
        """
        return _leading(self.claims)

    @property
    def shown(self) -> bool:
        """Whether a difference in accuracy is shown under any decoding."""
        return self.leading is not None and self.leading.shown

    @property
    def better_first(self) -> BetterConclusion:
        """The same conclusion, turned so that the run or arm that is shown to be better is first.

        Examples:
            >>> not_comparable(("a", "b"), "item sets differ").better_first.left
            'a'
        """
        if self.leading is None or self.leading.status != "worse":
            return self
        claims = tuple(map(turned, self.claims))
        status = _TURNED.get(self.status, self.status)
        return replace(self, status=status, left=self.right, right=self.left, claims=claims)


def _leading(claims: Sequence[Claim]) -> Claim | None:
    accuracy = [claim for claim in claims if claim.metric == "accuracy"]
    shown = (claim for claim in accuracy if claim.shown)
    if not accuracy or accuracy[0].status != "not shown":
        return next(iter(accuracy), None)
    return next(shown, accuracy[0])


_TURNED: Final[Mapping[BetterStatus, BetterStatus]] = {"better": "worse", "worse": "better"}


def turned(claim: Claim) -> Claim:
    """Return the claim on the second minus the first."""
    status = _TURNED.get(claim.status, claim.status)
    return replace(claim, status=status, difference=claim.difference.negated)


def better_of_runs(
    answer: ComparisonAnswer, names: tuple[str, str], items: tuple[str, ...] = ()
) -> BetterConclusion:
    """Return whether the first of two runs is better.

    Args:
        answer: the differences at view 0 and over K views.
        names: names of both runs.
        items: ids of the items that only one of them answers correctly.
    """
    decoded = [answer.chosen, *([] if answer.other is None else [answer.other])]
    claims = [
        _claim(metric, entry)
        for entry in decoded
        for metric in (entry.accuracy, entry.pair_accuracy)
    ]
    claims.append(_claim(decoded[-1].answer_mass, max(decoded, key=lambda entry: entry.k)))
    return _concluded(
        names,
        claims,
        detectable=answer.chosen.detectable,
        needed=answer.chosen.needed,
        items=items,
    )


@dataclass(frozen=True)
class DecodedArms:
    """Accuracy and pair accuracy of one arm minus another under one decoding.

    Attributes:
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0.
        repeats: number of repeats per item; 1 if the views are not repeats.
        differences: by metric, over the seeds that both have.
    """

    decoding: DecodingName
    k: int
    repeats: int
    differences: Mapping[str, ArmDifference]


def better_of_arms(
    names: tuple[str, str], seeds: int, decoded: Sequence[DecodedArms], margin: float | None = None
) -> BetterConclusion:
    """Return whether the first of two arms is better over the seeds that both have.

    Args:
        names: of both arms.
        seeds: number of seeds that both have.
        decoded: the differences, those under the decoding of the settings first.
        margin: largest difference that does not matter, as a fraction.
    """
    claims = [_arm_claim(metric, arms, margin) for arms in decoded for metric in HEADLINE]
    most = max(decoded, key=lambda arms: arms.k)
    claims.append(
        _arm_claim(ANSWER_MASS, replace(most, differences=decoded[0].differences), margin)
    )
    scope = decoded[0].differences["accuracy"].generalises_to
    return _concluded(names, claims, seeds=seeds, generalises_to=scope)


def _concluded(names: tuple[str, str], claims: Sequence[Claim], **fields: Any) -> BetterConclusion:
    """Conclude from claims, of which the first is on accuracy.

    Undefined ones are left out, and so is an answer mass that does not differ beyond rounding.
    """
    if math.isnan(claims[0].difference.value):
        reason = claims[0].difference.reason or "the difference in accuracy is undefined"
        return not_comparable(names, reason)
    defined = tuple(
        claim
        for claim in claims
        if not math.isnan(claim.difference.value)
        and (claim.metric != ANSWER_MASS or not math.isnan(claim.difference.low))
    )
    leading = _leading(defined) or claims[0]
    left, right = names
    return BetterConclusion(status=leading.status, left=left, right=right, claims=defined, **fields)


def adjusted_claims(conclusions: Sequence[BetterConclusion]) -> tuple[BetterConclusion, ...]:
    """Adjust all claims of conclusions that are shown together; see `adjusted_together`."""
    together = iter(
        adjusted_together([claim for conclusion in conclusions for claim in conclusion.claims])
    )
    return tuple(
        _with_claims(conclusion, tuple(next(together) for _ in conclusion.claims))
        for conclusion in conclusions
    )


def _with_claims(conclusion: BetterConclusion, claims: tuple[Claim, ...]) -> BetterConclusion:
    leading = _leading(claims)
    status = conclusion.status if leading is None else leading.status
    return replace(conclusion, claims=claims, status=status)


def adjusted_together(claims: Sequence[Claim]) -> list[Claim]:
    """Adjust the claims that one first line may name, by Holm.

    The line may name any comparison under any decoding. So the claims on accuracy are one family of
    tests: other runs times decodings. Those on pair accuracy and those on answer mass, which it
    does not name, are two others.

    Args:
        claims: all that are shown together, not adjusted.
    """
    tests = {
        name: iter(adjusted([claim.evidence for claim in claims if claim.metric == name]))
        for name in COMPARED
    }
    return [_with_evidence(claim, next(tests[claim.metric])) for claim in claims]


def _with_evidence(claim: Claim, test: Evidence) -> Claim:
    verdict = claim.verdict
    if verdict is not None and not test.marked:
        verdict = equivalence_verdict(claim.difference, verdict.margin, shown=False)
    status = claim_status(claim.difference, test, verdict)
    return replace(claim, evidence=test, status=status, verdict=verdict)


def not_comparable(names: tuple[str, str], reason: str) -> BetterConclusion:
    """Return the conclusion on two runs, or arms, that cannot be compared.

    Args:
        names: of both.
        reason: why.

    Examples:
        >>> not_comparable(("a", "b"), "item sets differ: 3 items only in a").status
        'cannot be compared'
    """
    return BetterConclusion(
        status="cannot be compared",
        left=names[0],
        right=names[1],
        reason=reason,
        unchecked=(Unchecked("accuracy", reason),),
    )


def overall(conclusions: tuple[BetterConclusion, ...]) -> BetterStatus:
    """Return the status of one run or arm against several others.

    Worse than any of them is worse; better and equivalent mean all of them.

    Args:
        conclusions: each of the same first run; empty if there is nothing to compare.

    Examples:
        >>> overall((not_comparable(("a", "b"), "item sets differ"),))
        'cannot be compared'
    """
    statuses = {conclusion.status for conclusion in conclusions}
    if not statuses:
        return "cannot be compared"
    if "worse" in statuses:
        return "worse"
    return statuses.pop() if len(statuses) == 1 else "not shown"


def _claim(metric: MetricComparison, decoded: DecodedComparison) -> Claim:
    return Claim(
        metric.spec.name,
        decoded.decoding,
        decoded.k,
        decoded.repeats,
        claim_status(metric.difference, metric.evidence, metric.verdict),
        metric.difference,
        metric.evidence,
        metric.verdict,
    )


def _arm_claim(metric: str, arms: DecodedArms, margin: float | None) -> Claim:
    difference = arms.differences[metric]
    tested = difference.tested
    verdict = None if margin is None else equivalence_verdict(tested, margin)
    status = claim_status(tested, difference.evidence, verdict)
    views = arms.decoding, arms.k, arms.repeats
    return Claim(metric, *views, status, tested, difference.evidence, verdict)


def claim_status(
    difference: Estimate, evidence: Evidence, verdict: EquivalenceVerdict | None
) -> BetterStatus:
    """Return the finding on a difference in a metric of which more is better.

    Args:
        difference: with its interval.
        evidence: its test.
        verdict: the interval compared with a margin; None without a margin.
    """
    if math.isnan(difference.value):
        return "cannot be compared"
    if evidence.marked:
        return "better" if sign_of(difference) > 0 else "worse"
    if verdict is not None and verdict.conclusion == "equivalent":
        return "equivalent"
    return "not shown"


readable_hints([better_of_arms])
