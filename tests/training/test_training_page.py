"""The page on training: its code runs, and its table says what the settings and defaults are."""

from __future__ import annotations

import inspect
import json
import re
import shutil
from collections.abc import Callable
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from adapters import MODEL
from losses.tiny import DATA

from pact_cli.main import main
from pact_eval.custody import adapter_record
from pact_eval.models import read_adapter_files
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.training import DEFAULT_PLAN
from pact_losses import (
    NIMBLE_RECIPE_SETTINGS,
    PACT_SETTINGS,
    FamilyBatchSampler,
    PactLoss,
    PactWeights,
    PaperSettings,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
)

PAGE = Path(__file__).parents[2] / "docs" / "training.md"

ROW = re.compile(r"\| [^|]+ \| `(?P<name>[\w.]+)` \| (?P<pact>[^|]+) \| (?P<recipe>[^|]+) \| .+ \|")


PREPARATION, LOOP = (
    PAGE.read_text("utf-8").split("```python\n")[1].split("```")[0].split("# the training\n")
)
TRAINERS = dict(
    re.findall(
        r"\*\*(Trainer of transformers|SFTTrainer of TRL|Lightning|accelerate)\*\*"
        r"[^`]*?(?:`[^`]+`[^`]*)*?```python\n(.*?)```",
        PAGE.read_text("utf-8").split("\n## In a trainer\n")[1].split("\n## ")[0],
        re.DOTALL,
    )
)
IMPORTS = {
    "a plain loop": "",
    "Trainer of transformers": "from transformers import Trainer, TrainingArguments\n"
    "from pact_losses.transformers import PactTrainerMixin",
    "SFTTrainer of TRL": "import functools, trl\nfrom trl import SFTTrainer\n"
    "SFTConfig = functools.partial(trl.SFTConfig, use_cpu=True)\n"
    "from pact_losses.transformers import PactTrainerMixin",
    "Lightning": "from pytorch_lightning import LightningModule, Trainer\n"
    "from pact_losses.lightning import PactDataModule, PactModuleMixin",
    "accelerate": "from accelerate import Accelerator\naccelerator = Accelerator(cpu=True)",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the page names: one family to train on, one to select on, and the base."""
    (tmp_path / "parts").mkdir()
    with DATA.open(encoding="utf-8") as file:
        for name in ("train", "selection"):
            text = "".join(islice(file, 2))
            (tmp_path / "parts" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    shutil.copytree(MODEL, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports its use otherwise
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the trainers, about a tiny run on a CPU
@pytest.mark.parametrize("name", IMPORTS)
def test_the_code_of_the_page_trains_an_adapter(name: str, files: Path) -> None:
    names: dict[str, Any] = {}
    for code in (PREPARATION, IMPORTS[name], TRAINERS.get(name, LOOP)):
        exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 (the page is ours)
    assert names["n_steps"] == 2
    if name == "a plain loop":
        assert {"ce", "cf", "pc", "nr"} <= set(names["out"].terms)
    schema = json.loads((files / "adapter/schema_config.json").read_text("utf-8"))
    assert schema["arm"] == "pact"
    assert identify(ModelRequest(files / "adapter")).encoder.contract is NIMBLE
    record = adapter_record(read_adapter_files(files / "adapter"))
    assert record is not None
    assert record.training["steps"] == 2
    assert [data.files[0].name for data in record.roles.values()] == [
        "train.jsonl",
        "selection.jsonl",
    ]
    lora_b = next(w for key, w in names["model"].named_parameters() if "lora_B" in key)
    assert bool((lora_b != 0).any())


def test_the_table_against_the_settings() -> None:
    section = PAGE.read_text("utf-8").split("\n## The paper's settings\n")[1]
    rows = [match.groupdict() for match in map(ROW.fullmatch, section.splitlines()) if match]
    names = [name for name in vars(PACT_SETTINGS) if name != "weights"]
    names += [f"weights.{name}" for name in vars(PactWeights())]
    assert sorted(row["name"] for row in rows) == sorted(names)
    for row in rows:
        assert row["pact"] == shown(PACT_SETTINGS, row["name"]), row["name"]
        assert row["recipe"] == shown(NIMBLE_RECIPE_SETTINGS, row["name"]), row["name"]


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (lora_config, {n: n for n in ("rank", "alpha", "dropout", "rslora", "targets")}),
        (
            lora_plus_optimizer,
            {
                "learning_rate": "learning_rate",
                "weight_decay": "weight_decay",
                "ratio": "lora_plus_ratio",
            },
        ),
        (learning_rate_schedule, {"schedule": "schedule", "warmup": "warmup"}),
        (PactLoss, {"margin": "margin", "epsilon": "epsilon", "ramp": "ramp"}),
        (FamilyBatchSampler, {"bucket": "bucket"}),
    ],
)
def test_defaults_of_the_parts_are_the_papers(
    part: Callable[..., Any], names: dict[str, str]
) -> None:
    parameters = inspect.signature(part).parameters
    for name, setting in names.items():
        assert parameters[name].default == getattr(PACT_SETTINGS, setting), name


def test_other_defaults_are_the_papers() -> None:
    assert PactLoss().weights == PACT_SETTINGS.weights
    assert DEFAULT_PLAN.permuted == PACT_SETTINGS.permuted_views
    assert DEFAULT_PLAN.ablated == PACT_SETTINGS.ablated_view
    assert NIMBLE.max_prompt_tokens == PACT_SETTINGS.max_prompt_tokens
    views = next(option for option in main.commands["score"].params if option.name == "k")
    assert views.default == PACT_SETTINGS.evaluation_views


def shown(settings: PaperSettings, name: str) -> str:
    value = attrgetter(name)(settings)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
