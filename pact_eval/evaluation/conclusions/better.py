"""Conclusion on which of two runs, or of two arms over their seeds, is better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pact_eval._choices import Decoding
from pact_eval._hints import readable_hints
from pact_eval.evaluation.answers import ComparisonAnswer, DecodedComparison
from pact_eval.evaluation.comparison import MetricComparison
from pact_eval.evaluation.conclusions.conclusion import Conclusion, Question, Tone, Unchecked
from pact_eval.evaluation.decoding import DecodingName, decoding_name
from pact_eval.evaluation.marks import Evidence, sign_of
from pact_eval.evaluation.run_rates import HEADLINE
from pact_eval.stats.equivalence import EquivalenceVerdict, equivalence_verdict
from pact_eval.stats.estimate import LEVEL, Estimate

if TYPE_CHECKING:  # a report of one run needs no arms
    from pact_eval.evaluation.arms.comparison import ArmPair
    from pact_eval.evaluation.arms.differences import ArmDifference

BetterStatus = Literal["better", "worse", "equivalent", "not shown", "cannot be compared"]
"""Of the first run or arm. equivalent: only with a margin."""


@dataclass(frozen=True)
class Claim:
    """Finding on the difference in one metric under one decoding.

    Attributes:
        metric: accuracy or pair_accuracy.
        decoding: single (view 0), ensemble (K views), or those of repeats; see `decoding_name`.
        k: number of views: 1 for view 0, and for the mean over repeats.
        repeats: number of repeats per item; 1 if the views are not repeats.
        status: better or worse if the difference is shown.
        difference: the first minus the second, with its interval.
        evidence: the test behind the status.
    """

    metric: str
    decoding: DecodingName
    k: int
    repeats: int
    status: BetterStatus
    difference: Estimate
    evidence: Evidence


@dataclass(frozen=True, kw_only=True, repr=False)
class BetterConclusion(Conclusion):
    """Conclusion on whether the first run, or arm, is better than the second.

    Attributes:
        status: of accuracy under the decoding of the settings.
        left: name of the first run or arm.
        right: name of the second.
        claims: accuracy and pair accuracy by decoding: the decoding of the settings first.
        seeds: number of seeds that both arms have; 1 for two runs.
        generalises_to: what an interval over seeds is about; "" for two runs.
        detectable: smallest difference in accuracy that the items show with 80% power; NaN over
            seeds, and without an interval.
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
    def leading(self) -> Claim | None:
        """The claim on accuracy to name first; None if the two cannot be compared.

        It is that of the settings, unless only the other decoding shows a difference.
        """
        accuracy = [claim for claim in self.claims if claim.metric == "accuracy"]
        shown = [claim for claim in accuracy if claim.status in ("better", "worse")]
        if not accuracy or accuracy[0].status != "not shown":
            return next(iter(accuracy), None)
        return next(iter(shown), accuracy[0])

    @property
    def shown(self) -> bool:
        """Whether a difference in accuracy is shown under any decoding."""
        return self.leading is not None and self.leading.status in ("better", "worse")

    @property
    def better_first(self) -> BetterConclusion:
        """The same conclusion, turned so that the run or arm that is shown to be better is first.

        Examples:
            >>> not_comparable(("a", "b"), "item sets differ").better_first.left
            'a'
        """
        if self.leading is None or self.leading.status != "worse":
            return self
        claims = tuple(map(_turned, self.claims))
        status = _TURNED.get(self.status, self.status)
        return replace(self, status=status, left=self.right, right=self.left, claims=claims)


_TURNED: Final[Mapping[BetterStatus, BetterStatus]] = {"better": "worse", "worse": "better"}


def _turned(claim: Claim) -> Claim:
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
    chosen, other = answer.chosen, answer.other
    claims = [_claim(metric, chosen) for metric in (chosen.accuracy, chosen.pair_accuracy)]
    if other is not None:
        tests = chosen.accuracy.evidence.tests
        claims += [
            _claim(replace(metric, evidence=_beside(metric.evidence, tests)), other)
            for metric in (other.accuracy, other.pair_accuracy)
        ]
    reason = _undefined(claims[0])
    if reason is not None:
        return not_comparable(names, reason)
    return BetterConclusion(
        status=claims[0].status,
        left=names[0],
        right=names[1],
        claims=tuple(claim for claim in claims if not math.isnan(claim.difference.value)),
        detectable=chosen.detectable,
        needed=chosen.needed,
        items=items,
    )


def better_of_arms(
    pair: ArmPair, decoding: Decoding, k: int, repeats: int = 1, margin: float | None = None
) -> BetterConclusion:
    """Return whether the first of two arms is better over the seeds that both have.

    Args:
        pair: both arms at their shared seeds.
        decoding: that of every run.
        k: number of views of every run.
        repeats: number of repeats per item; 1 if the views are not repeats.
        margin: largest difference that does not matter, as a fraction.
    """
    differences = pair.differences["all"]
    views = decoding_name(decoding, repeats), 1 if decoding == "single" else k, repeats
    claims = tuple(_arm_claim(metric, differences[metric], views, margin) for metric in HEADLINE)
    accuracy = differences["accuracy"]
    reason = _undefined(claims[0])
    if reason is not None:
        return not_comparable((pair.a, pair.b), reason)
    return BetterConclusion(
        status=claims[0].status,
        left=pair.a,
        right=pair.b,
        claims=tuple(claim for claim in claims if not math.isnan(claim.difference.value)),
        seeds=len(pair.seeds),
        generalises_to=accuracy.generalises_to,
    )


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


def _undefined(claim: Claim) -> str | None:
    """Return why a difference is undefined; None if it is not."""
    if not math.isnan(claim.difference.value):
        return None
    return claim.difference.reason or "the difference in accuracy is undefined"


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


def _beside(evidence: Evidence, tests: int) -> Evidence:
    """Adjust a test of the other decoding if those of the chosen one are adjusted together.

    They are not in that family of Holm's, so Bonferroni's factor is the whole family and both of
    them.

    Args:
        evidence: of accuracy or pair accuracy under the other decoding.
        tests: number of tests that were adjusted together; 0 if none were.
    """
    if not tests:
        return evidence
    every = tests + len(HEADLINE)
    p_value = min(1.0, every * evidence.p_value)
    marked = evidence.marked and p_value <= LEVEL
    return replace(evidence, adjusted_p_value=p_value, tests=every, marked=marked)


def _claim(metric: MetricComparison, decoded: DecodedComparison) -> Claim:
    return Claim(
        metric.spec.name,
        decoded.decoding,
        decoded.k,
        decoded.repeats,
        claim_status(metric.difference, metric.evidence, metric.verdict),
        metric.difference,
        metric.evidence,
    )


def _arm_claim(
    metric: str,
    difference: ArmDifference,
    views: tuple[DecodingName, int, int],
    margin: float | None,
) -> Claim:
    tested = difference.tested
    verdict = None if margin is None else equivalence_verdict(tested, margin)
    status = claim_status(tested, difference.evidence, verdict)
    return Claim(metric, *views, status, tested, difference.evidence)


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
