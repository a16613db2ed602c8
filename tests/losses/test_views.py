"""Views that cannot be trained on, and what is said of them."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from losses.made_views import family

from pact_losses import PactCollator, TrainingView, ViewError

BASE, _, PERMUTED, _, ABLATED = family("a", n_choices=3)


@pytest.mark.parametrize(
    ("view", "changes", "message"),
    [
        (ABLATED, {"ablated_answers": None}, "for an ablated view, its two answers"),
        (ABLATED, {"ablated_answers": (1, 1)}, "expected two different answers of 3 as ablated"),
        (ABLATED, {"ablated_answers": (0, 3)}, "expected two different answers of 3 as ablated"),
        (ABLATED, {"ablated_answers": (0, 4)}, "expected two different answers of 3 as ablated"),
        (ABLATED, {"reference": 0}, "expected no reference in an ablated view, got 0"),
        (BASE, {"reference": None}, "expected a reference or, for an ablated view"),
        (BASE, {"reference": 3}, "expected a reference from 0 to 2, got 3"),
        (BASE, {"reference": -1}, "expected a reference from 0 to 2, got -1"),
        (BASE, {"token_ids": ()}, "expected at least one token, got none"),
        (BASE, {"code_order": (0, 1, 1)}, r"a permutation of two or more answers, got \[0, 1, 1\]"),
        (BASE, {"code_order": (0,)}, r"a permutation of two or more answers, got \[0\]"),
        (BASE, {"code_tokens": (3, 4)}, r"expected 3 distinct letter tokens, got \[3, 4\]"),
        (BASE, {"code_tokens": (3, 4, 3)}, r"expected 3 distinct letter tokens, got \[3, 4, 3\]"),
        (BASE, {"weight": 0.0}, "expected a finite weight above 0, got 0.0"),
        (BASE, {"weight": math.inf}, "expected a finite weight above 0, got inf"),
        (BASE, {"weight": math.nan}, "expected a finite weight above 0, got nan"),
        (BASE, {"view": -1}, "expected a view of 0 or more, got -1"),
        # Unrefused, these would leave a term out without a word.
        (BASE, {"kind": "noul"}, "expected a kind among choice, boolean, score, got noul"),
        (
            BASE,
            {"variant": "cf"},
            "expected a variant among base, counterfactual, unpaired, got cf",
        ),
    ],
)
def test_a_view_that_does_not_fit_together_is_named(
    view: TrainingView, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ViewError, match=rf"^record a-base, view -?\d: .*{message}"):
        replace(view, **changes)


def test_lists_as_json_has_them_are_taken() -> None:
    lists: list[dict[str, Any]] = [
        {
            name: list(getattr(view, name))
            for name in ("token_ids", "code_tokens", "code_order", "ablated_answers")
            if getattr(view, name) is not None
        }
        for view in family("a", n_choices=3)
    ]
    made = zip(family("a", n_choices=3), lists, strict=True)
    views = [replace(view, **changes) for view, changes in made]
    batch, expected = PactCollator(0)(views), PactCollator(0)(family("a", n_choices=3))
    assert batch.code_order.equal(expected.code_order)
    assert batch.ablations.equal(expected.ablations)


def test_views_travel_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(family("a"))) == family("a")  # noqa: S301 (made here)
