"""What the objective refuses, and what it says."""

import math
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
import torch
from losses.losses_oracle import family_case

from pact_losses import (
    AnswerLogits,
    BatchError,
    NonFiniteError,
    PactBatch,
    PactLoss,
    PactLossError,
    PactOutput,
    PactWeights,
    unit_totals,
)
from pact_losses.steps import TermSums


def pair_batch(n_pairs: int = 1, **changes: Any) -> PactBatch:
    names = [f"{pair}-{member}" for pair in range(n_pairs) for member in ("base", "cf")]
    pairs = [(2 * pair, 2 * pair + 1) for pair in range(n_pairs)]
    tables: dict[str, Any] = {"pairs": pairs, "record_ids": names} | changes
    return PactBatch.of([[0, 1]] * (2 * n_pairs), [0, 1] * n_pairs, **tables)


def measure(code_logits: Any, batch: PactBatch, **weights: float) -> PactOutput:
    return PactLoss(PactWeights(**weights))(torch.as_tensor(code_logits), batch, progress=1.0)


def test_weights_and_outputs_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        PactWeights().cf = 1.0  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        measure([[0.0, 0.0]] * 2, pair_batch()).total = torch.tensor(0.0)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "name", "values"),
    [
        *(
            (PactWeights, name, (-0.1, math.nan, math.inf))
            for name in ("cf", "pc", "nr", "emd", "am")
        ),
        (PactLoss, "margin", (-1.0, math.inf)),
        (PactLoss, "epsilon", (-0.5,)),
        (PactLoss, "ramp", (1.5, -0.1, math.nan)),
    ],
)
def test_settings_out_of_range(make: Any, name: str, values: tuple[float, ...]) -> None:
    for value in values:
        with pytest.raises(PactLossError, match=f"{name}: expected .*, got {value}"):
            make(**{name: value})


@pytest.mark.parametrize("progress", [-0.01, 1.01, math.nan, math.inf])
def test_progress_out_of_range(progress: float) -> None:
    with pytest.raises(PactLossError, match=f"progress: expected 0 to 1, got {progress}"):
        PactLoss()(torch.zeros(2, 2), pair_batch(), progress=progress)


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(2, 3), r"expected shape \(2, 2\), .*, got \(2, 3\): more letters than the"),
        *((torch.zeros(shape), r"got \([\d, ]+\)$") for shape in ((2, 1), (3, 2), (2,), (1, 2, 2))),
        (torch.tensor([[0, 1], [1, 0]]), "expected a floating type, got torch.int64"),
        (torch.zeros(2, 2, device="meta"), r"on meta, the batch on cpu; move it with batch.to"),
    ],
)
def test_logits_that_do_not_fit_the_batch(logits: torch.Tensor, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        measure(logits, pair_batch())


def test_a_batch_without_a_labelled_view() -> None:
    batch = PactBatch.of([[0, 1]] * 2, [None, None], views=[(0, 1)], record_ids=["a", "b"])
    message = "expected a labelled view in every batch, got no reference for records: a, b$"
    with pytest.raises(BatchError, match=message):
        measure(torch.zeros(2, 2), batch)
    with pytest.raises(BatchError, match="got no reference for records: none"):
        measure(torch.zeros(0, 0), PactBatch.of([], []))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_named_with_their_terms(bad: float) -> None:
    logits = torch.zeros(6, 2)
    logits[2, 0] = bad
    message = r"logits are not finite \(used in ce, cf\) for records: 1-base$"
    with pytest.raises(NonFiniteError, match=message):
        measure(logits, pair_batch(3))


def test_a_logit_of_minus_infinity_is_refused_though_the_total_is_finite() -> None:
    batch = PactBatch.of([[0, 1, 2]], [0])
    message = r"logits are not finite \(used in ce\) for records: row 0$"
    with pytest.raises(NonFiniteError, match=message):
        measure([[0.0, 0.0, -math.inf]], batch)


def test_float16_logits_that_overflowed_are_named() -> None:
    logits = torch.tensor([[7e4, 0.0], [0.0, 1.0]]).half()
    with pytest.raises(NonFiniteError, match="for records: 0-base$"):
        measure(logits, pair_batch())


def test_up_to_five_records_are_named() -> None:
    logits = torch.full((8, 2), math.nan)
    with pytest.raises(NonFiniteError, match="0-base, 0-cf, 1-base, 1-cf, 2-base and 3 more$"):
        measure(logits, pair_batch(4))
    with pytest.raises(NonFiniteError, match="0-base, 0-cf$"):
        measure(logits[:2], pair_batch())


def test_a_record_is_named_once() -> None:
    batch = PactBatch.of([[0, 1], [1, 0]], [0, 0], views=[(0, 1)], record_ids=["a-base", "a-base"])
    with pytest.raises(NonFiniteError, match=r"\(used in ce, pc\) for records: a-base$"):
        measure(torch.full((2, 2), math.nan), batch)


def test_a_term_that_overflows_is_named() -> None:
    case = family_case((3, 2))
    row, y_a, _ = case.ablations[1]
    case.canonical[row][y_a] = 1e30
    logits = case.code_logits(torch.float32)
    with pytest.raises(NonFiniteError, match="^term nr is not finite for records: row 9$"):
        PactLoss()(logits, case.batch(), progress=1.0)
    out = PactLoss(PactWeights(nr=0.0))(logits, case.batch(), progress=1.0)
    assert out.total.isfinite()


def test_the_records_of_a_pair_are_named() -> None:
    """Each logit is a float32, the four together exceed its range."""
    logits = torch.tensor([[0.0, 1.0], [1.0, 0.0], [-2e38, 1e38], [1e38, -2e38]])
    reference = pair_batch(2, weight=[1.0, 1.0, 1.0, 1.0])
    with pytest.raises(NonFiniteError, match="^term cf is not finite for records: 1-base, 1-cf$"):
        measure(logits / 1.5 * 1.4, reference)


def test_a_total_that_overflows_shows_its_parts() -> None:
    message = "the total is not finite, but each of its terms is: ce 1 x 0.693147, cf 1e[+]39 x"
    with pytest.raises(NonFiniteError, match=message):
        measure(torch.zeros(2, 2), pair_batch(), cf=1e39)


def test_totals_without_a_term_of_the_batch() -> None:
    for totals in ({"ce": 2.0}, {"ce": 2.0, "cf": 0.0}, {"ce": 2.0, "cf": math.nan}):
        with pytest.raises(BatchError, match="expected the summed unit weight of term cf"):
            PactLoss()(torch.zeros(2, 2), pair_batch(), progress=1.0, totals=totals)


def test_an_answer_mass_that_is_not_known_has_no_weight() -> None:
    """Without it, the term is absent; with a weight, nothing else would hold the letters up."""
    batch, logits = pair_batch(), torch.zeros(2, 2)
    assert "am" not in measure(logits, batch).terms
    with pytest.raises(BatchError, match="weight am is 0.5, but only the logits of the letters"):
        measure(logits, batch, am=0.5)
    for rest in (torch.zeros(1), torch.zeros(2, 1), torch.zeros(2, dtype=torch.long)):
        with pytest.raises(BatchError, match=r"rest: expected shape \(2,\) of a floating type"):
            PactLoss()(AnswerLogits(logits, rest), batch, progress=1.0)
    wide = AnswerLogits(logits, torch.tensor([0.0, math.inf]))
    assert PactLoss()(wide, batch, progress=1.0).total.isfinite()
    with pytest.raises(NonFiniteError, match="term am is not finite for records: 0-cf"):
        PactLoss(PactWeights(am=1.0))(wide, batch, progress=1.0)


def test_the_answer_mass_of_two_batches_is_that_of_one() -> None:
    one, two = pair_batch(1), pair_batch(2)
    rest = torch.tensor([0.0, 1.0, -1.0, 2.0, 0.5, 0.25])
    loss, totals = PactLoss(PactWeights(am=0.7)), unit_totals([one, two])
    parts = [
        loss(AnswerLogits(torch.zeros(len(part), 2), part), batch, progress=1.0, totals=totals)
        for batch, part in ((one, rest[:2]), (two, rest[2:]))
    ]
    together = loss(AnswerLogits(torch.zeros(6, 2), rest), pair_batch(3), progress=1.0)
    total = sum(float(part.total) for part in parts)
    assert total == pytest.approx(float(together.total), rel=1e-6)
    sums = TermSums()
    for part in parts:
        sums.add(part)
    means = sums.take()
    masses = 1 / (1 + rest.exp() / 2)
    assert means.diagnostics["answer_mass"] == pytest.approx(float(masses.mean()), rel=1e-6)
    assert means.terms["am"] == pytest.approx(float(-masses.log().mean()), rel=1e-6)
