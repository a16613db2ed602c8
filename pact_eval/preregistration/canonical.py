"""One spelling of the criteria, whose hash is what a registration freezes.

It is made from what was read, not from the file: comments, spacing, the order of keys, of
hypotheses, of checks and within lists do not matter, and a default that is written out is the
default. Words (title, claim, says, needs) belong to the criteria.
"""

from __future__ import annotations

import hashlib
import json

from pact_eval._json import Json, dumps
from pact_eval.preregistration.criteria import FORMAT, Check, Hypotheses, Hypothesis, Instead

__all__ = ["canonical_criteria", "criteria_changes", "criteria_sha256", "sha256_of_json"]


def canonical_criteria(hypotheses: Hypotheses) -> dict[str, Json]:
    """Return the criteria as JSON; hypotheses by id, checks by what they say.

    Example:
        >>> from pact_eval.preregistration import pact_hypotheses
        >>> canonical_criteria(pact_hypotheses())["format"]
        'pact-hypotheses-1'
    """
    by_id: dict[str, Json] = {each.id: _hypothesis(each) for each in hypotheses.hypotheses}
    return {"format": FORMAT, "hypotheses": by_id}


def criteria_sha256(hypotheses: Hypotheses) -> str:
    """Return the SHA-256 of the canonical criteria as 64 hex digits."""
    return sha256_of_json(canonical_criteria(hypotheses))


def sha256_of_json(value: Json) -> str:
    """Return the SHA-256 of a value's JSON: sorted keys, no spaces, non-ASCII kept, UTF-8.

    Example:
        >>> sha256_of_json({"b": 1, "a": 2})[:8]
        'd3626ac3'
    """
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def criteria_changes(registered: Json, now: Json) -> tuple[str, ...]:
    """Say what differs between two canonical criteria.

    Args:
        registered: `canonical_criteria` when they were registered.
        now: the same today.

    Returns:
        One sentence a difference; none where they are the same.

    Example:
        >>> criteria_changes({"hypotheses": {"H4": {"claim": "a"}}},
        ...                  {"hypotheses": {"H4": {"claim": "b"}}})
        ('H4, claim: registered "a", now "b"',)
    """
    return tuple(_changes((), registered, now))


def _hypothesis(hypothesis: Hypothesis) -> Json:
    checks: dict[str, Json] = {check.says: _check(check) for check in hypothesis.checks}
    beside: dict[str, Json] = {check.says: _check(check) for check in hypothesis.beside}
    words: dict[str, Json] = {"title": hypothesis.title, "claim": hypothesis.claim, "check": checks}
    return words | ({"beside": beside} if beside else {})


def _check(check: Check) -> Json:
    # A key that is absent stands for its default: keys added by later versions keep old hashes.
    optional: dict[str, Json] = {
        "minus": None if check.minus is None else _instead(check.minus),
        "seeds": None if check.seeds is None else [*sorted(check.seeds)],
        "needs": check.needs,
    }
    if check.relation == "similar":
        optional["within"] = str(check.margin)
    elif check.margin.amount:
        optional["by_more_than"] = str(check.margin)
    return {
        "metric": check.metric,
        "arm": [*sorted(check.arms)],
        "decoding": [*sorted(check.decodings)],
        "group": [*sorted(check.groups)],
        "is": check.relation,
        "than": _instead(check.than),
        "judged_on": check.judged_on,
        **{key: value for key, value in optional.items() if value is not None},
    }


def _instead(instead: Instead) -> Json:
    return dict(instead.parts)


def _changes(path: tuple[str, ...], before: Json, now: Json) -> list[str]:
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            change
            for key in sorted({*before, *now})
            for change in _changes((*path, key), before.get(key), now.get(key))
        ]
    where = ", ".join(part for part in path if part != "hypotheses") or "criteria"
    if before is None or now is None:
        shown = "" if isinstance(before or now, dict) else f" {dumps(before or now)}"
        return [f"{where}: {'added' if before is None else 'removed'} since{shown}"]
    return [f"{where}: registered {dumps(before)}, now {dumps(now)}"]
