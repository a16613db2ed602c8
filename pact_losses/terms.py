"""The PACT terms: pure functions on canonical logits, one value per unit, reduction last.

Logits are in canonical order (see `to_canonical`). An unused slot holds `MASKED_LOGIT` (-inf is
accepted) and does not affect any value or gradient. Half precision is upcast to float32; float64 is
kept. Values and gradients are finite for all finite logits of a model (tested to +-1e4), even if
probabilities underflow to 0. All values are in nats or squared nats, except for the ordinal
transport, which is a plain number.
"""

from __future__ import annotations

import math
from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch gives it
from torch import Tensor

MASKED_LOGIT: Final = -1e30
"""Used instead of -inf in an unused slot: its probability is exactly 0, and 0 times it is 0."""


def to_canonical(code_logits: Tensor, code_order: Tensor) -> Tensor:
    """Scatter logits from letter order into canonical order (the paper's canonical choice space).

    The content of an unused slot, even NaN, affects neither the value nor the gradient.

    Args:
        code_logits: shape (..., C), any floating type; logits of the letters, in nats.
        code_order: shape (..., C), int64; canonical index shown at each letter, negative in
            unused slots.

    Returns:
        Shape (..., C), float32 or float64; `MASKED_LOGIT` in unused slots.

    Examples:
        >>> to_canonical(torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[2, 0, 1]])).tolist()
        [[1.0, 2.0, 3.0]]
    """
    logits = _upcast(code_logits)
    width = logits.shape[-1]
    # An extra last column receives the content of unused slots, and is cut off.
    target = torch.where(code_order >= 0, code_order, width)
    empty = logits.new_full((*logits.shape[:-1], width + 1), MASKED_LOGIT)
    return empty.scatter(-1, target, logits)[..., :width]


def cross_entropy(logits: Tensor, reference: Tensor) -> Tensor:
    """L_CE = -log p_y, the negative log-likelihood of the correct answer.

    Args:
        logits: shape (..., C), canonical.
        reference: shape (...), int64; canonical index y of the correct answer.

    Returns:
        Shape (...), nats, 0 or above.

    Examples:
        >>> value = cross_entropy(torch.tensor([[0.0, 0.0]]), torch.tensor([1]))
        >>> [round(nats, 4) for nats in value.tolist()]
        [0.6931]
    """
    return -_at(_log_probabilities(logits), reference)


def pair_margin(
    logits_base: Tensor,
    logits_counterfactual: Tensor,
    reference_base: Tensor,
    reference_counterfactual: Tensor,
) -> Tensor:
    """The difference in differences of a pair, d of the paper's equation (1).

        d(x_a, x_b) = [z_ya(x_a) - z_yb(x_a)] + [z_yb(x_b) - z_ya(x_b)]

    Proposition 1 (offset invariance): adding any c in R^C to the logits of both members leaves d
    unchanged, so a prior over outcomes cannot change it. If both members are correct under the
    restriction to {y_a, y_b}, then d > 0.

    Args:
        logits_base: shape (..., C), canonical, z(x_a).
        logits_counterfactual: shape (..., C), canonical, z(x_b).
        reference_base: shape (...), int64, y_a.
        reference_counterfactual: shape (...), int64, y_b.

    Returns:
        Shape (...), nats, any sign; higher is better.

    Examples:
        >>> base, flipped = torch.tensor([[1.5, 0.0]]), torch.tensor([[0.0, 2.0]])
        >>> pair_margin(base, flipped, torch.tensor([0]), torch.tensor([1])).tolist()
        [3.5]
    """
    in_base = _difference(logits_base, reference_base, reference_counterfactual)
    in_other = _difference(logits_counterfactual, reference_counterfactual, reference_base)
    return in_base + in_other


def counterfactual_margin_loss(margins: Tensor, margin: float = 2.0) -> Tensor:
    """L_CF = softplus(m - d): small if the pair is separated by more than m nats.

    By Proposition 1, a prior over outcomes cannot lower it. The logit gap must change with the
    edited fact.

    Args:
        margins: shape (...), nats; d as returned by `pair_margin`.
        margin: m, nats.

    Returns:
        Shape (...), 0 or above; log 2 at d = m, about m - d far below.

    Examples:
        >>> loss = counterfactual_margin_loss(torch.tensor([2.0, 12.0]))
        >>> [round(value, 4) for value in loss.tolist()]
        [0.6931, 0.0]
    """
    return F.softplus(margin - _upcast(margins))


def jensen_shannon(logits_one: Tensor, logits_other: Tensor) -> Tensor:
    r"""L_PC = JSD(p || q) between two views of one record; label-free.

        JSD = 1/2 KL(p || m) + 1/2 KL(q || m),   m = (p + q) / 2

    It is computed as sum_j m_j (log 2 - h_j). Here h_j is the entropy of the view, given answer j:
    a function of \|log q_j - log p_j\| alone. Every summand is symmetric and bounded, and no
    logarithm of a probability that may be 0 is needed.

    Args:
        logits_one: shape (..., C), canonical.
        logits_other: shape (..., C), canonical, of the same answers.

    Returns:
        Shape (...), nats, from 0 (equal distributions) to log 2 (disjoint distributions).

    Examples:
        >>> one = torch.tensor([[0.0, 0.0], [1e4, -1e4]])
        >>> other = torch.tensor([[5.0, 5.0], [-1e4, 1e4]])
        >>> [round(nats, 4) for nats in jensen_shannon(one, other).tolist()]
        [0.0, 0.6931]
    """
    log_p, log_q = _log_probabilities(logits_one), _log_probabilities(logits_other)
    mean = (log_p.exp() + log_q.exp()) / 2
    ratio = (log_q - log_p).abs()
    # log 2 - log(1 + e^-ratio), in a form that keeps all digits for nearly equal distributions.
    excess = -torch.log1p(torch.expm1(-ratio) / 2) - ratio * torch.sigmoid(-ratio)
    return (mean * excess).sum(-1).clamp(0.0, math.log(2.0))


def ablated_gap(logits: Tensor, answer_base: Tensor, answer_counterfactual: Tensor) -> Tensor:
    """|z_ya(x_o) - z_yb(x_o)|: the logit gap in a context without the decisive sentence.

    Args:
        logits: shape (..., C), canonical, of the ablated contexts.
        answer_base: shape (...), int64, y_a.
        answer_counterfactual: shape (...), int64, y_b.

    Returns:
        Shape (...), nats, 0 or above; lower is better.

    Examples:
        >>> gap = ablated_gap(torch.tensor([[0.5, 9.0, 2.0]]), torch.tensor([0]), torch.tensor([2]))
        >>> gap.tolist()
        [1.5]
    """
    return _difference(logits, answer_base, answer_counterfactual).abs()


def necessity_loss(gap: Tensor, epsilon: float = 0.0) -> Tensor:
    """L_NR = relu(gap - eps)^2: without the evidence, y_a and y_b should be equally likely.

    The term does not depend on the logits of other answers (their gradient is exactly 0), and it is
    symmetric in the two answers.

    Args:
        gap: shape (...), nats; as returned by `ablated_gap`.
        epsilon: eps, the gap in nats up to which the loss is 0.

    Returns:
        Shape (...), squared nats, 0 or above.

    Examples:
        >>> necessity_loss(torch.tensor([1.5, 0.25]), epsilon=0.5).tolist()
        [1.0, 0.0]
    """
    return F.relu(_upcast(gap) - epsilon).square()


def ordinal_transport_loss(logits: Tensor, reference: Tensor) -> Tensor:
    """L_EMD: squared earth mover's distance between the CDF of the levels and the reference.

        L_EMD = sum_j (sum_{i<=j} p_i - 1[j >= y])^2

    For j >= y, the bracket is minus the mass above j and is computed as that mass: no digits are
    lost near the one-hot reference, and unused slots (without mass) add exactly 0.

    Args:
        logits: shape (..., C), canonical, of a Score field: level 0, 1, ...
        reference: shape (...), int64; the correct level y.

    Returns:
        Shape (...), from 0 (all mass on y) to C - 1; a one-hot prediction costs its distance to y.

    Examples:
        >>> sure_of_level_2 = torch.tensor([[0.0, 0.0, 99.0]])
        >>> ordinal_transport_loss(sure_of_level_2, torch.tensor([0])).tolist()
        [2.0]
    """
    p = _log_probabilities(logits).exp()
    mass_to = p.cumsum(-1)
    mass_above = F.pad(p.flip(-1).cumsum(-1).flip(-1)[..., 1:], (0, 1))
    levels = torch.arange(p.shape[-1], device=p.device)
    bracket = torch.where(levels < reference[..., None], mass_to, mass_above)
    return bracket.square().sum(-1)


def answer_mass_loss(logits: Tensor, rest: Tensor) -> Tensor:
    """L_AM = -log m: cross-entropy of the letters' total against the rest of the vocabulary.

    With L = log sum_j exp z_j over the letters, and R the same over all other tokens, the letters
    have the answer mass m = e^L / (e^L + e^R), so

        L_AM = -log m = log(1 + e^(R - L)) = softplus(R - L),

    which keeps all digits at both ends, where m is 0 or 1 in floating point. All other terms are
    functions of p_j = e^(z_j - L), which stay as they are if all letters fall together: nothing
    else holds m up. Because log p(y) over the whole vocabulary is log p_y + log m, L_CE + L_AM is
    plain cross-entropy over the vocabulary. The gradients

        dL_AM/dz_j = -(1 - m) p_j of a letter,   dL_AM/dz_v = (1 - m) q_v of another token,

    with q_v = e^(z_v - R), add up to 0 and end as m reaches 1.

    Args:
        logits: shape (..., C), in any order.
        rest: shape (...), R: log of the summed exp of the logits of all other tokens, nats.

    Returns:
        Shape (...), nats, 0 or above; log 2 if half of the probability is on the letters.

    Examples:
        >>> loss = answer_mass_loss(torch.zeros(2, 2), torch.tensor([math.log(2.0), -90.0]))
        >>> [round(nats, 4) for nats in loss.tolist()]
        [0.6931, 0.0]
    """
    letters = _upcast(logits).clamp(min=MASKED_LOGIT).logsumexp(-1)
    return F.softplus(_upcast(rest) - letters)


def _upcast(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


def _log_probabilities(logits: Tensor) -> Tensor:
    return F.log_softmax(_upcast(logits).clamp(min=MASKED_LOGIT), dim=-1)


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(-1, index[..., None]).squeeze(-1)


def _difference(logits: Tensor, index: Tensor, other: Tensor) -> Tensor:
    full = _upcast(logits)
    return _at(full, index) - _at(full, other)
