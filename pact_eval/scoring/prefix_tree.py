"""The prefix tree of prompts: each shared token passes through a model once. Pure Python.

The views of a record share everything up to the first permuted answer. The members of a pair share
everything up to the edited sentence. All prompts share the system message. The tree is built on
token ids, never on text, because tokenising a prefix alone can give other ids.

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
        ids: the tokens after its branch, at least one; the last one is the answer position.
        prompts: numbers of the prompts that end here; several if prompts are identical.
    """

    ids: Ids
    prompts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Tokens that several prompts share, and their continuations.

    Attributes:
        ids: the tokens after the parent branch; empty at a root whose prompts share nothing.
        branches: longer shared prefixes that continue from here.
        leaves: prompts that share no further tokens.
    """

    ids: Ids
    branches: tuple[Branch, ...]
    leaves: tuple[Leaf, ...]

    @property
    def n_children(self) -> int:
        """Number of branches and leaves that continue from here."""
        return len(self.branches) + len(self.leaves)

    @property
    def longest_way(self) -> int:
        """Tokens of this branch and of the longest way from its end to that of a prompt."""
        ways = [len(leaf.ids) for leaf in self.leaves]
        return len(self.ids) + max([*ways, *(branch.longest_way for branch in self.branches)])


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Prompts as a tree.

    Attributes:
        root: the beginning of all prompts.
        prompt_tokens: tokens of all prompts, each counted in full.
        floor: tokens of the finest tree: the minimum that must pass through the model.
        tokens: tokens of this tree; it exceeds the floor because very short branches are left out.
    """

    root: Branch
    prompt_tokens: int
    floor: int
    tokens: int

    def prompts(self) -> Iterator[tuple[int, Ids]]:
        """Yield (number, token ids) of every prompt, reassembled from the tree."""
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

    Identical prompts become one leaf. Every leaf keeps at least one token, even if its prompt is a
    prefix of another prompt.

    Args:
        prompts: token ids of every prompt, at least one token each.
        min_saving: a branch below the root is kept if it saves at least this many tokens; below
            that, an extra pass through the model costs more than it saves.

    Raises:
        ValueError: there is no prompt, or an empty one.

    Examples:
        >>> tree = prefix_tree([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6), (1, 2, 6)], min_saving=0)
        >>> tree.root.ids, tree.root.branches[0].ids, tree.root.leaves
        ((1, 2), (3,), (Leaf(ids=(6,), prompts=(2, 3)),))
        >>> tree.prompt_tokens, tree.floor, tree.tokens
        (14, 6, 6)
    """
    if not prompts or not all(prompts):
        raise ValueError("expected prompts of at least one token, got none or an empty one")
    numbers: dict[Ids, list[int]] = {}
    for number, ids in enumerate(prompts):
        numbers.setdefault(tuple(ids), []).append(number)
    # In sorted order, the first and the last prompt of a group share what the full group shares.
    ordered = [(ids, tuple(numbers[ids])) for ids in sorted(numbers)]
    root = _prune(_branch(ordered, 0), min_saving)
    return PrefixTree(
        root=root,
        prompt_tokens=sum(len(ids) for ids in prompts),
        floor=_floor([ids for ids, _ in ordered]),
        tokens=_tokens(root),
    )


def shared_tokens(prompts: Sequence[Ids]) -> int:
    """Count the tokens of the finest tree of prompts: the minimum that must pass through a model.

    Examples:
        >>> shared_tokens([(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 6), (1, 2, 6)])
        6
    """
    return _floor(sorted(set(prompts)))


def _branch(group: Sequence[tuple[Ids, tuple[int, ...]]], start: int) -> Branch:
    """Return the branch of sorted prompts that share their tokens up to `start`."""
    shortest = min(len(ids) for ids, _ in group)
    end = min(_common(group[0][0], group[-1][0], start), shortest - 1)
    branches, leaves = [], []
    # A prompt that ends with the next token becomes a leaf here, even if others continue with it.
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
    """Return how many leading tokens two prompts share; they share at least `start`."""
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
    """Count the tokens of the finest tree: those that each prompt adds to the one before it."""
    shared = [0, *(_common(a, b, 0) for a, b in pairwise(ordered))]
    return sum(len(ids) - common for ids, common in zip(ordered, shared, strict=True))


def _prune(branch: Branch, min_saving: int) -> Branch:
    """Merge branches that save too little into their children."""
    branches: list[Branch] = []
    leaves = list(branch.leaves)
    for child in branch.branches:
        kept = _prune(child, min_saving)
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


def length_sorted_batches(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Group prompts so that a padded batch holds at most `batch_tokens` tokens.

    Args:
        lengths: tokens of each prompt.
        batch_tokens: rows times longest row allowed in a batch, padding included. A prompt longer
            than the budget gets its own batch.

    Returns:
        Indices into `lengths`, longest first. The first batch needs the most memory. The grouping
        depends on the lengths alone; equal lengths keep their order.

    Examples:
        >>> length_sorted_batches([5, 9, 5, 2], batch_tokens=10)
        [[1], [0, 2], [3]]
    """
    batches: list[list[int]] = []
    for index in _longest_first(lengths):
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def tight_batches(
    lengths: Sequence[int], *, prefix: int, new_tokens: int, cached_tokens: float, padding: float
) -> list[list[int]]:
    """Group continuations of a cached prefix with little padding.

    Args:
        lengths: new tokens of each row.
        prefix: cached tokens of each row.
        new_tokens: limit on rows times longest row in a batch.
        cached_tokens: limit on rows times (prefix + longest row) in a batch.
        padding: largest share of padding in a batch, from 0 (equal lengths only) to 1.

    Returns:
        Indices into `lengths`, longest first; a row over the budgets gets its own batch.

    Examples:
        >>> lengths = [30, 29, 30, 12]
        >>> tight_batches(lengths, prefix=90, new_tokens=99, cached_tokens=999, padding=0.05)
        [[0, 2, 1], [3]]
        >>> tight_batches(lengths, prefix=90, new_tokens=99, cached_tokens=999, padding=0)
        [[0, 2], [1], [3]]
    """
    batches: list[list[int]] = []
    held = 0
    for index in _longest_first(lengths):
        if batches:
            rows, longest = len(batches[-1]) + 1, lengths[batches[-1][0]]
            fits = rows * longest <= new_tokens and rows * (prefix + longest) <= cached_tokens
            if fits and rows * longest - held - lengths[index] <= padding * rows * longest:
                batches[-1].append(index)
                held += lengths[index]
                continue
        batches.append([index])
        held = lengths[index]
    return batches


def consecutive_batches(
    lengths: Sequence[int], behind: Sequence[int], new_tokens: int, cached_tokens: float
) -> list[list[int]]:
    """Group segments in their order, for passes that concatenate them without padding.

    Args:
        lengths: new tokens of each segment.
        behind: tokens of the prefix of each segment.
        new_tokens: limit on the new tokens of a batch.
        cached_tokens: limit on the new tokens of a batch plus those of the prefixes, counted once
            per segment.

    Returns:
        Indices into `lengths`; a segment over the budgets gets its own batch.

    Examples:
        >>> consecutive_batches([30, 12, 40, 30], [90, 90, 5, 5], 80, cached_tokens=999)
        [[0, 1], [2, 3]]
        >>> consecutive_batches([30, 12, 40, 30], [90, 90, 5, 5], 80, cached_tokens=200)
        [[0], [1, 2], [3]]
    """
    batches: list[list[int]] = []
    new = cached = 0
    for index, (length, before) in enumerate(zip(lengths, behind, strict=True)):
        fits = new + length <= new_tokens and cached + before + length <= cached_tokens
        if not batches or not fits:
            batches.append([])
            new = cached = 0
        batches[-1].append(index)
        new += length
        cached += before + length
    return batches


def _longest_first(lengths: Sequence[int]) -> list[int]:
    return sorted(range(len(lengths)), key=lambda index: -lengths[index])
