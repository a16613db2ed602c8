from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pact_eval.scoring.prefix_tree import Branch, Leaf, prefix_tree

# Three token ids only, so that prompts share prefixes, repeat, and begin one another.
PROMPTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=14).map(tuple), min_size=1, max_size=12
)


def _parts(branch: Branch) -> list[Branch | Leaf]:
    return [branch, *branch.leaves, *(part for child in branch.branches for part in _parts(child))]


@given(PROMPTS, st.integers(0, 9))
def test_a_tree_holds_its_prompts_and_costs_their_distinct_prefixes_counted_one_by_one(
    prompts: list[tuple[int, ...]], min_saving: int
) -> None:
    tree = prefix_tree(prompts, min_saving)
    assert sorted(tree.prompts()) == sorted(enumerate(prompts))
    assert tree.floor == len({ids[:end] for ids in prompts for end in range(1, len(ids) + 1)})
    assert tree.tokens >= tree.floor
    assert tree.prompt_tokens == sum(map(len, prompts))
    for part in _parts(tree.root):
        if isinstance(part, Leaf):
            assert part.ids
            assert len({prompts[number] for number in part.prompts}) == 1
        elif part is not tree.root:
            assert part.n_children >= 2
            assert part.ids
            assert len(part.ids) * (part.n_children - 1) >= min_saving


def test_without_pruning_only_prompts_that_begin_another_cost_more_than_the_floor() -> None:
    assert prefix_tree([(1, 2, 3), (1, 2, 4), (1, 5)], 0).tokens == 5
    beginning = prefix_tree([(1, 2), (1, 2, 3)], 0)
    assert (beginning.floor, beginning.tokens) == (3, 4)  # the 2 passes twice: both end on theirs
    assert beginning.root == Branch((1,), (), (Leaf((2,), (0,)), Leaf((2, 3), (1,))))


def test_a_tree_by_hand_of_a_pair_with_two_views_each() -> None:
    system, state, tail = (1, 2), (3, 4), (9,)
    base = [system + state + (5,) + view + tail for view in ((6, 7), (7, 6))]
    other = [system + state + (8, 8) + view + tail for view in ((6, 7), (7, 6))]
    tree = prefix_tree([*base, *other], 0)
    assert tree.root.ids == system + state
    assert [branch.ids for branch in tree.root.branches] == [(5,), (8, 8)]
    assert [leaf.ids for leaf in tree.root.branches[1].leaves] == [(6, 7, 9), (7, 6, 9)]
    assert (tree.prompt_tokens, tree.floor) == (34, 4 + 1 + 2 + 4 * 3)


def test_identical_prompts_are_one_leaf() -> None:
    tree = prefix_tree([(4, 5), (4, 5), (4, 5)])
    assert tree.root == Branch((4,), (), (Leaf((5,), (0, 1, 2)),))


def test_prompts_that_share_nothing_hang_on_an_empty_root() -> None:
    tree = prefix_tree([(1, 2), (3, 4)])
    assert tree.root == Branch((), (), (Leaf((1, 2), (0,)), Leaf((3, 4), (1,))))


def test_no_prompt_and_an_empty_one_are_refused() -> None:
    for prompts in ([], [(1,), ()]):
        with pytest.raises(ValueError, match="at least one token"):
            prefix_tree(prompts)
