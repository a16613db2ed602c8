"""The answers to show, for callers: a function without dependencies."""

from hashlib import blake2b


def answer_set(probabilities, sets, group, item=""):  # type: ignore[no-untyped-def] # to be copied
    """The answers to choose from, by their index; for levels, an interval."""
    chosen = sets["kinds"].get(group)
    if chosen is None or chosen["probability_at_least"] is None:
        return list(range(len(probabilities)))
    if sets.get("ties_seed") is not None:  # the id of the item decides ties
        name = f"{sets['ties_seed']}\0{item}".encode("utf-8", "surrogatepass")
        luck = int.from_bytes(blake2b(name, digest_size=4).digest(), "big") / 2**32
        probabilities = [p + luck * 1e-6 for p in probabilities]
    least = min(chosen["probability_at_least"], max(probabilities))
    kept = [answer for answer, p in enumerate(probabilities) if p >= least]
    levels = chosen.get("kind", group) == "score"
    return list(range(kept[0], kept[-1] + 1)) if levels else kept
