"""Which tokens of many prompts must pass through a model once: their prefix tree. Pure Python.

The views of a record share everything up to the first permuted answer, the members of a pair
everything up to the edited sentence, and all prompts the system message. The tree is built on token
ids, never on text: tokenising a prefix alone can give other ids.

    system message ── state of a pair ─┬─ base ───────────┬─ view 0
                                       │                  └─ view 1
                                       └─ counterfactual ─┬─ view 0
                                                          └─ view 1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

Ids = tuple[int, ...]

_MIN_SAVING = 8


@dataclass(frozen=True, slots=True)
class Leaf:
    """The end of a prompt.

    Attributes:
        ids: what follows its branch; one token at least, the last of which is the answer position.
        prompts: numbers of the prompts that end here; several if prompts are identical.
    """

    ids: Ids
    prompts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Tokens that several prompts share, and what follows them.

    Attributes:
        ids: what follows the branch above; empty at a root whose prompts share nothing.
        branches: longer prefixes that continue from here.
        leaves: prompts that end without sharing more.
    """

    ids: Ids
    branches: tuple[Branch, ...]
    leaves: tuple[Leaf, ...]

    @property
    def n_children(self) -> int:
        """Number of branches and leaves that continue from here."""
        return len(self.branches) + len(self.leaves)


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Prompts as a tree.

    Attributes:
        root: the beginning of all prompts.
        prompt_tokens: tokens of all prompts together, each counted in full.
        floor: tokens of the finest tree: the least that must pass through the model.
        tokens: tokens of this tree; more than the floor by what very short branches would have
            saved.
    """

    root: Branch
    prompt_tokens: int
    floor: int
    tokens: int

    def prompts(self) -> Iterator[tuple[int, Ids]]:
        """Yield (number, token ids) of every prompt, put together again from the tree."""
        stack: list[tuple[Branch, Ids]] = [(self.root, ())]
        while stack:
            branch, before = stack.pop()
            prefix = before + branch.ids
            for leaf in branch.leaves:
                for number in leaf.prompts:
                    yield number, prefix + leaf.ids
            stack += [(child, prefix) for child in branch.branches]


def prefix_tree(prompts: Sequence[Ids], min_saving: int = _MIN_SAVING) -> PrefixTree:
    """Build the prefix tree of prompts.

    Identical prompts become one leaf. Every leaf keeps at least one token, even if a prompt is the
    beginning of another one.

    Args:
        prompts: token ids of every prompt, one token at least.
        min_saving: a branch below the root is kept if it saves this many tokens; a pass through
            the model for fewer costs more than it saves.

    Raises:
        ValueError: there is no prompt, or an empty one.

    Example:
        >>> tree = prefix_tree([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6), (1, 2, 6)], min_saving=0)
        >>> tree.root.ids, tree.root.branches[0].ids, tree.root.leaves
        ((1, 2), (3,), (Leaf(ids=(6,), prompts=(2, 3)),))
        >>> tree.prompt_tokens, tree.floor, tree.tokens
        (14, 6, 6)
    """
    if not prompts or not all(prompts):
        message = "expected prompts of at least one token, got none or an empty one"
        raise ValueError(message)
    numbers: dict[Ids, list[int]] = {}
    for number, ids in enumerate(prompts):
        numbers.setdefault(tuple(ids), []).append(number)
    # In order, the first and the last of a group share what all of the group share.
    ordered = [(ids, tuple(numbers[ids])) for ids in sorted(numbers)]
    root = _pruned(_branch(ordered, 0), min_saving)
    return PrefixTree(
        root=root,
        prompt_tokens=sum(len(ids) for ids in prompts),
        floor=_floor([ids for ids, _ in ordered]),
        tokens=_tokens(root),
    )


def _branch(group: Sequence[tuple[Ids, tuple[int, ...]]], start: int) -> Branch:
    """Return the branch of prompts in order that share their tokens up to `start`."""
    shortest = min(len(ids) for ids, _ in group)
    end = min(_common(group[0][0], group[-1][0], start), shortest - 1)
    branches, leaves = [], []
    # A prompt that ends with the next token leaves the group here, though others may go on with it.
    ending = [(ids, which) for ids, which in group if len(ids) == end + 1]
    leaves += [Leaf(ids[end:], which) for ids, which in ending]
    longer = [(ids, which) for ids, which in group if len(ids) > end + 1]
    for _, members in groupby(longer, key=lambda one: one[0][end]):
        inner = list(members)
        if len(inner) == 1:
            leaves.append(Leaf(inner[0][0][end:], inner[0][1]))
        else:
            branches.append(_branch(inner, end))
    return Branch(group[0][0][start:end], tuple(branches), tuple(leaves))


def _common(a: Ids, b: Ids, start: int) -> int:
    """Return how many tokens two prompts share that share `start` of them."""
    shorter = min(len(a), len(b))
    if a[start:shorter] == b[start:shorter]:
        return shorter
    low, high = start, shorter  # equal up to low, not up to high
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _floor(ordered: Sequence[Ids]) -> int:
    """Count the nodes of the finest tree: what each prompt adds to the one before it."""
    shared = [0, *(_common(a, b, 0) for a, b in pairwise(ordered))]
    return sum(len(ids) - common for ids, common in zip(ordered, shared, strict=True))


def _pruned(branch: Branch, min_saving: int) -> Branch:
    """Give the tokens of branches that save too little to what follows them."""
    branches: list[Branch] = []
    leaves = list(branch.leaves)
    for child in branch.branches:
        kept = _pruned(child, min_saving)
        if len(kept.ids) * (kept.n_children - 1) >= min_saving:
            branches.append(kept)
            continue
        branches += [
            Branch(kept.ids + inner.ids, inner.branches, inner.leaves) for inner in kept.branches
        ]
        leaves += [Leaf(kept.ids + leaf.ids, leaf.prompts) for leaf in kept.leaves]
    return Branch(branch.ids, tuple(branches), tuple(leaves))


def _tokens(branch: Branch) -> int:
    return (
        len(branch.ids)
        + sum(len(leaf.ids) for leaf in branch.leaves)
        + sum(_tokens(child) for child in branch.branches)
    )
