"""Decision templates of transformers: their files, and the prompt contract that they make.

`files.py` reads the files, and `trial.py` renders a template within limits; neither loads a model
library. `contract.py` makes prompts of them with
transformers, and is imported by name by what loads models.
"""

from pact_eval.templates.files import (
    DECISION_CONFIG,
    DECISION_TEMPLATE,
    TEMPLATE_CONTRACT,
    TEMPLATE_TASK,
    DecisionFiles,
    has_decision_files,
    head_files,
    is_decision_model,
    read_decision_files,
)
from pact_eval.templates.trial import first_rendering, trial_fault

__all__ = [
    "DECISION_CONFIG",
    "DECISION_TEMPLATE",
    "TEMPLATE_CONTRACT",
    "TEMPLATE_TASK",
    "DecisionFiles",
    "first_rendering",
    "has_decision_files",
    "head_files",
    "is_decision_model",
    "read_decision_files",
    "trial_fault",
]
