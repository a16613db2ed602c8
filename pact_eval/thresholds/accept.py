"""The gate for callers: a function without dependencies, which can be copied."""

from math import log


def accept(probabilities, thresholds, group="all"):  # type: ignore[no-untyped-def] # to be copied
    """Return whether to act on an answer; if not, ask a person."""
    gate = thresholds["gates"].get(group)
    if gate is None or gate["sureness_at_least"] is None or not probabilities:
        return False
    views = probabilities if isinstance(probabilities[0], list) else [probabilities]
    first, second = sorted(views[0], reverse=True)[:2]
    pairs = [(one, other) for at, one in enumerate(views) for other in views[:at]]
    apart = sum(abs(p - q) for pair in pairs for p, q in zip(*pair, strict=True))
    sureness = {
        "top": first,
        "margin": first - second,
        "entropy": sum(p * log(p) for p in views[0] if p > 0),
        "disagreement": -apart / 2 / len(pairs) if pairs else -1.0,
    }
    return sureness[thresholds["rule"]["signal"]] >= gate["sureness_at_least"]
