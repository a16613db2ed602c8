"""Single-step REINFORCE over the candidates of a decision: a contextual bandit.

The paper's demonstration tunes an adapter this way (appendix "Applied Demonstration"; Williams
1992). Every candidate of a state has a score, so the baseline is their mean: no value function is
learned, and the score of the sampled candidate is compared with that of an average one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pact_losses.errors import BatchError, NonFiniteError
from pact_losses.terms import MASKED_LOGIT


@dataclass(frozen=True)
class PolicyGradient:
    """The loss of n decisions, and what to log of it.

    Attributes:
        loss: shape (n,); the loss of each state. Its mean is differentiated.
        advantage: shape (n,), units of the scores; sampled score minus baseline, no gradient.
        entropy: shape (n,), nats, from 0 to log C; with gradient.
        log_probability: shape (n,), nats, 0 or below; of the sampled candidate, with gradient.
    """

    loss: Tensor
    advantage: Tensor
    entropy: Tensor
    log_probability: Tensor


def policy_gradient(
    logits: Tensor, scores: Tensor, sampled: Tensor, *, entropy_weight: float = 0.01
) -> PolicyGradient:
    """The REINFORCE loss with a per-state baseline and an entropy bonus.

        L = -(r_a - mean_j r_j) log p_a - beta H(p),   p = softmax(logits)

    The mean is over the candidates of the state, whatever their probabilities. With a ~ p, the
    expected gradient of the first part is that of -sum_j p_j r_j: the baseline changes its variance
    only. A state whose candidates score alike contributes its entropy alone.

    Args:
        logits: shape (n, C), canonical, in nats; `MASKED_LOGIT` (or -inf) in unused slots.
        scores: shape (n, C), any unit, higher is better; unused slots are ignored, even NaN.
        sampled: shape (n,), int64; canonical index a of the candidate that was sampled.
        entropy_weight: beta, 0 or above; in units of the scores per nat.

    Returns:
        Loss and diagnostics, one value per state, float32 (float64 from float64 logits).

    Raises:
        BatchError: shapes do not fit, or an unused slot was sampled.
        NonFiniteError: the score of a candidate is not a finite number.
        ValueError: `entropy_weight` is negative.

    Examples:
        >>> logits, scores = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 3.0]])
        >>> result = policy_gradient(logits, scores, torch.tensor([1]), entropy_weight=0.0)
        >>> result.advantage.tolist(), [round(value, 4) for value in result.loss.tolist()]
        ([1.0], [0.6931])
    """
    logits = logits if logits.dtype == torch.float64 else logits.float()
    used = logits > MASKED_LOGIT / 2
    _check(logits, scores, sampled, used, entropy_weight)
    log_p = torch.log_softmax(logits.masked_fill(~used, MASKED_LOGIT), -1)
    used_scores = scores.detach().to(logits.dtype).masked_fill(~used, 0.0)
    baseline = used_scores.sum(-1) / used.sum(-1)
    advantage = _at(used_scores, sampled) - baseline
    log_probability = _at(log_p, sampled)
    # 0 log 0 = 0: an unused slot adds nothing to the value or to the gradient.
    entropy = -(log_p.exp() * log_p.masked_fill(~used, 0.0)).sum(-1)
    loss = -advantage * log_probability - entropy_weight * entropy
    return PolicyGradient(loss, advantage, entropy, log_probability)


def _check(
    logits: Tensor, scores: Tensor, sampled: Tensor, used: Tensor, entropy_weight: float
) -> None:
    if entropy_weight < 0:
        raise ValueError(f"expected an entropy_weight of 0 or more, got {entropy_weight}")
    if logits.dim() != 2 or scores.shape != logits.shape or sampled.shape != logits.shape[:1]:
        raise BatchError(
            "expected logits and scores of shape (n, C) and sampled of shape (n,), got "
            f"{tuple(logits.shape)}, {tuple(scores.shape)} and {tuple(sampled.shape)}"
        )
    width = logits.shape[1]
    inside = (sampled >= 0) & (sampled < width)
    wrong = ~inside | ~_at(used, sampled.clamp(0, width - 1))
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise BatchError(f"row {row}: the sampled index {int(sampled[row])} is not a candidate")
    broken = used & ~torch.isfinite(scores)
    if bool(broken.any()):
        row, slot = broken.nonzero()[0].tolist()
        message = f"row {row}: the score of candidate {slot} is {float(scores[row, slot])}"
        raise NonFiniteError(message)


def _at(values: Tensor, index: Tensor) -> Tensor:
    return values.gather(-1, index[:, None])[:, 0]
