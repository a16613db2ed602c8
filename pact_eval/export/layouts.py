"""The layouts of an exported folder.

adapter     the LoRA and the decision files; transformers needs `decision_config=FOLDER` too
with-base   the full base model, the LoRA in the subfolder `adapter`, and the decision files
merged      the LoRA added to the weights, and the decision files; needs no PEFT
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from pact_eval._choices import ExportLayout
from pact_eval._files import write_atomically
from pact_eval._json import dumps_indented
from pact_eval.custody.training_record import TRAINING_RECORD
from pact_eval.models.folders import ADAPTER_CONFIG, ADAPTER_WEIGHTS, SCHEMA_CONFIG
from pact_eval.runs.provenance import Contract
from pact_eval.scoring.model import (
    ScoringModel,
    attach_adapter,
    load_base,
    quiet_loading,
    stored_dtype,
)
from pact_eval.templates.files import DECISION_CONFIG, DECISION_TEMPLATE, DecisionFiles

SUBFOLDER: Final = "adapter"
"""Where the LoRA is in the layout with-base."""

_BASE_FILES: Final = ("*.json", "*.jinja", "*.txt", "*.model")
_NOT_OF_THE_BASE: Final = (DECISION_CONFIG, DECISION_TEMPLATE)


def write_layout(
    layout: ExportLayout, folder: Path, model: ScoringModel, files: DecisionFiles
) -> None:
    """Write a folder that transformers loads.

    Args:
        layout: what to write.
        folder: an existing, empty folder.
        model: base and adapter.
        files: the decision files.

    Raises:
        OSError: a file cannot be written.
        AdapterError: base or adapter cannot be loaded to be merged.
    """
    if layout == "adapter":
        _copy_adapter(model, folder, names_base=True)
    elif layout == "with-base":
        _copy_base(model, folder, ("*.safetensors", *_BASE_FILES))
        _copy_adapter(model, folder / SUBFOLDER, names_base=False)
        files = replace(files, adapter=SUBFOLDER)
    else:
        _copy_base(model, folder, _BASE_FILES)
        _save_merged(model, folder)
    for name, text in files.texts().items():
        write_atomically(folder / name, text)


def _copy_base(model: ScoringModel, folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for file in sorted(model.base.folder.glob(pattern)):
            if file.name not in _NOT_OF_THE_BASE:
                shutil.copyfile(file, folder / file.name)


def _copy_adapter(model: ScoringModel, folder: Path, *, names_base: bool) -> None:
    adapter = model.adapter
    assert adapter is not None  # noqa: S101 - the caller has refused a base alone
    folder.mkdir(exist_ok=True)
    shutil.copyfile(adapter.weights, folder / ADAPTER_WEIGHTS)
    if (adapter.folder / TRAINING_RECORD).exists():
        shutil.copyfile(adapter.folder / TRAINING_RECORD, folder / TRAINING_RECORD)
    base = model.base
    named = base.name if base.revision is not None else str(base.folder.resolve())
    config = dict(adapter.config) | {"base_model_name_or_path": named if names_base else None}
    if base.revision is not None:
        config["revision"] = base.revision
    write_atomically(folder / ADAPTER_CONFIG, dumps_indented(config))
    schema = dict(adapter.schema_config or {})
    if schema and names_base:
        write_atomically(folder / SCHEMA_CONFIG, dumps_indented(schema | {"model": named}))


def _save_merged(model: ScoringModel, folder: Path) -> None:
    """Merge in float32, and save in the dtype of the base."""
    assert model.adapter is not None  # noqa: S101 - the caller has refused a base alone
    loaded: Any = load_base(model.base, model.adapter, torch.device("cpu"), torch.float32)
    merged = attach_adapter(loaded, model.adapter).merge_and_unload(safe_merge=True)
    with quiet_loading():
        merged.to(stored_dtype(model.base.folder)).save_pretrained(folder)


def readme(
    name: str, layout: ExportLayout, files: DecisionFiles, *, compared: str, precision: str
) -> str:
    """Return the README of an exported folder.

    Args:
        name: name of the folder.
        layout: what it holds.
        files: the decision files: the contract that it renders, and the temperatures by type.
        compared: how far its probabilities are from those of pact-eval, and on what.
        precision: in which precision they are compared, and what the stored one moves.
    """
    more = f', decision_config="./{name}"' if layout == "adapter" else ""
    shipped = json.dumps({kind: round(number, 4) for kind, number in files.temperature.items()})
    return _README.format(
        name=name,
        more=more,
        layout=layout,
        contract=files.fingerprint,
        compared=compared,
        precision=precision,
        temperatures=shipped if files.temperature else "none (raw probabilities)",
        note=_NOTES[layout],
    )


_README: Final = """\
# {name}

A decision model for transformers 5.23 or newer, exported by `pact-eval export`.

```python
from transformers import pipeline
decide = pipeline("decision", model="./{name}"{more})
decide({{"state": "The seal is broken.", "questions": {{"sealed": {{"type": "noul"}}}}}})
```

{note}

- ExportLayout: {layout}.
- Prompt contract: {contract}.
- Temperatures by type: {temperatures}.
- Probabilities are those of pact-eval, compared at the export: {compared}.
- Precision: {precision}.
- Every question has a prompt of its own. Types are `noul` (true or false), `choice` and `score`.
- transformers deletes the texts `<|mark|>` and `<|split|>` from a request.
"""


def contract_note(contract: Contract) -> str:
    """Return the section of the README on who stated the contract; empty if the adapter did.

    Examples:
        >>> print(contract_note(Contract("nimble", stated_by="user")))
        <BLANKLINE>
        ## Prompt contract
        <BLANKLINE>
        The adapter names none: contract stated by the user.
        <BLANKLINE>
    """
    remark = contract.remark
    return "" if remark is None else f"\n## Prompt contract\n\nThe adapter names none: {remark}.\n"


PRIOR_NOTE: Final = """
## Letter prior

`letter_prior.json` holds how much the model prefers a letter, whatever answer is next to it.
transformers does not read it. Remove it from the probabilities that you get:

```python
import numpy as np

def without_letter_prior(probabilities, order, prior):
    log_prior = prior["log_prior"].get(str(len(order)))
    if log_prior is None:
        return dict(probabilities)
    p = np.array([probabilities[answer] for answer in order], dtype=float)
    with np.errstate(divide="ignore"):
        z = np.log(p) - log_prior
    weights = np.exp(z - z.max())
    return dict(zip(order, (weights / weights.sum()).tolist()))
```

`probabilities` are those of the answers by name, `order` are the answers at letters A, B, ..., and
`prior` is the content of the file. A server that rounds probabilities to two decimals gives the
result within about 0.01, and a probability of 0.00 stays 0.
"""
"""What the README of an export says of its letter prior."""

_NOTES: Final[dict[ExportLayout, str]] = {
    "adapter": (
        "The folder holds the LoRA only. Without `decision_config`, transformers takes the prompt "
        "of the base model, and says nothing. `transformers serve` cannot load this layout."
    ),
    "with-base": "The folder holds the base model, and the LoRA in `adapter`. PEFT must be "
    "installed. `transformers serve` loads it too.",
    "merged": "The LoRA is added to the weights. `transformers serve` loads the folder too.",
}
