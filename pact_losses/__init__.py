"""The PACT objective for any trainer. Imports torch and none of our other packages."""

from pact_losses.batch import NO_REFERENCE, PactBatch, PactCollator, PairViews
from pact_losses.candidates import AnswerLogits, answer_logits, candidate_logits
from pact_losses.data import AdapterRecord, PactData
from pact_losses.errors import BatchError, FamilyError, NonFiniteError, PactLossError, ViewError
from pact_losses.families import Family, FamilyBatchSampler, group_families
from pact_losses.objective import PactLoss, PactOutput, PactWeights, unit_totals
from pact_losses.optimisation import (
    NIMBLE_RECIPE_SETTINGS,
    PACT_SETTINGS,
    PaperSettings,
    language_targets,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
    nf4_config,
)
from pact_losses.reinforce import PolicyGradient, policy_gradient
from pact_losses.selection import (
    LEAST_ANSWER_MASS,
    BestCheckpoint,
    SelectionScore,
    selection_nll,
    selection_score,
)
from pact_losses.steps import StepBatches, StepMeans, pact_step, pact_steps
from pact_losses.terms import (
    MASKED_LOGIT,
    ablated_gap,
    answer_mass_loss,
    counterfactual_margin_loss,
    cross_entropy,
    jensen_shannon,
    necessity_loss,
    ordinal_transport_loss,
    pair_margin,
    to_canonical,
)
from pact_losses.views import FieldKind, TrainingView, ViewRole

__all__ = [
    "LEAST_ANSWER_MASS",
    "MASKED_LOGIT",
    "NIMBLE_RECIPE_SETTINGS",
    "NO_REFERENCE",
    "PACT_SETTINGS",
    "AdapterRecord",
    "AnswerLogits",
    "BatchError",
    "BestCheckpoint",
    "Family",
    "FamilyBatchSampler",
    "FamilyError",
    "FieldKind",
    "NonFiniteError",
    "PactBatch",
    "PactCollator",
    "PactData",
    "PactLoss",
    "PactLossError",
    "PactOutput",
    "PactWeights",
    "PairViews",
    "PaperSettings",
    "PolicyGradient",
    "SelectionScore",
    "StepBatches",
    "StepMeans",
    "TrainingView",
    "ViewError",
    "ViewRole",
    "ablated_gap",
    "answer_logits",
    "answer_mass_loss",
    "candidate_logits",
    "counterfactual_margin_loss",
    "cross_entropy",
    "group_families",
    "jensen_shannon",
    "language_targets",
    "learning_rate_schedule",
    "lora_config",
    "lora_plus_optimizer",
    "necessity_loss",
    "nf4_config",
    "ordinal_transport_loss",
    "pact_step",
    "pact_steps",
    "pair_margin",
    "policy_gradient",
    "selection_nll",
    "selection_score",
    "to_canonical",
    "unit_totals",
]
