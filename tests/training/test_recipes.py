from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import command_line
from messages import assert_says
from peft import get_peft_model
from safetensors.torch import load_file
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils.data import DataLoader
from training.recipe_bases import of_recipe, write_base, write_files
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from pact_eval.custody import read_training_record
from pact_eval.data.records import read_records
from pact_eval.errors import AdapterError, InputError
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.training_log import SELECTION_NLL, read_training_log
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.training import ViewPlan, train_recipe, training_data, training_views, views_sha256
from pact_eval.training.__main__ import main
from pact_eval.training.recipe import TrainingInterruptedError
from pact_eval.training.recipe_data import RecipeFiles
from pact_eval.training.recipe_model import recipe_settings
from pact_eval.training.recipes import SETTINGS
from pact_losses import (
    PACT_SETTINGS,
    FamilyBatchSampler,
    PactCollator,
    PactLoss,
    candidate_logits,
    learning_rate_schedule,
    lora_config,
    lora_plus_optimizer,
)

pytestmark = pytest.mark.posix

WEIGHTS = "adapter_model.safetensors"
EXEMPT = {"wall_seconds", "seconds_per_step", "peak_memory_bytes", "training_data_sha256"}
FILES = {
    *("adapter_config.json", WEIGHTS, "schema_config.json", "training_data.json"),
    *("log.jsonl", "training.json"),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base of random weights."""
    return write_base(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RecipeFiles:
    """Six families to train on, and six to select with."""
    return write_files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def undisturbed(base: Path, files: RecipeFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training with dropout, so that random numbers decide every step."""
    out = tmp_path_factory.mktemp("undisturbed") / "adapter"
    train_recipe(of_recipe(base, files, dropout=0.1), out)
    return out


def content(folder: Path) -> dict[str, Any]:
    """The files of an adapter folder, without times, peak memory and the hash of the record."""
    contents: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            is_json = path.suffix == ".json"
            contents[name] = _kept(json.loads(path.read_bytes())) if is_json else path.read_bytes()
    return contents


def _kept(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _kept(part) for key, part in value.items() if key not in EXEMPT}


@pytest.mark.slow
def test_weights_against_a_plain_loop_in_the_same_precision(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    """The loop of the miniature before recipes: one forward pass per step, in bfloat16."""
    one_pass: dict[str, Any] = {
        "dropout": 0.0,
        "pairs_per_batch": 4,
        "accumulation": 1,
        "epochs": 2,
    }
    train_recipe(of_recipe(base, files, select_share=1.0, **one_pass), tmp_path / "adapter")
    load: Any = AutoModelForCausalLM.from_pretrained
    model = load(base, dtype=torch.float32)
    model.set_attn_implementation("eager")
    encoder = Encoder(AutoTokenizer.from_pretrained(base), NIMBLE)
    views: Any = training_views(read_records(files.train), encoder, ViewPlan(seed=17))
    torch.manual_seed(17)
    model = get_peft_model(model, lora_config(dropout=0.0)).train()
    sampler = FamilyBatchSampler(views, 4, seed=17)
    optimizer = lora_plus_optimizer(model)
    n_steps = 2 * len(sampler)
    schedule = learning_rate_schedule(optimizer, n_steps=n_steps)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    loader: Any = DataLoader(views, batch_sampler=sampler, collate_fn=PactCollator(0))
    step = 0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in loader:
            step += 1
            with torch.autocast("cpu", torch.bfloat16):
                logits = candidate_logits(model, batch)
            total: Any = PactLoss()(logits, batch, progress=step / n_steps).total
            total.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    saved = load_file(tmp_path / "adapter" / WEIGHTS)
    state = {name: weight for name, weight in model.state_dict().items() if "lora_" in name}
    assert len(saved) == len(state) == 28
    for name, weight in state.items():
        assert torch.equal(saved[name.replace(".default", "")], weight.to(torch.bfloat16)), name


@pytest.mark.slow
def test_the_folder_is_what_score_takes_with_its_log_and_record(
    undisturbed: Path, base: Path, files: RecipeFiles
) -> None:
    assert {path.name for path in undisturbed.iterdir()} == FILES
    log = read_training_log(undisturbed / "log.jsonl")
    card = json.loads((undisturbed / "training.json").read_text("utf-8"))
    assert log.steps.tolist() == [1, 2, 3, 4]  # 6 families, 4 a step, 2 epochs
    assert card["steps"] == 4
    assert {*log.columns["steps"].tolist()} == {4}  # for the cost of an experiment
    assert (card["selected_step"], card[SELECTION_NLL]) == log.selected
    assert card["views_per_pair"] == 5.0
    assert card["peak_memory_bytes"] > 0
    assert card["settings"]["dropout"] == 0.1
    assert card["settings"]["learning_rate"] == PACT_SETTINGS.learning_rate
    record = read_training_record(undisturbed)
    assert record is not None
    assert {role: data.files[0].name for role, data in record.roles.items()} == {
        "train": files.train.name,
        "selection": files.selection.name,
    }
    scored = identify(ModelRequest(undisturbed))
    assert scored.base.folder.resolve() == base.resolve()


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0, 1])
def test_answer_mass_is_logged_and_a_checkpoint_without_enough_is_named(
    base: Path, files: RecipeFiles, tmp_path: Path, weight: int
) -> None:
    """No model puts everything on the letters: with a bound of 1, no checkpoint has enough."""
    said: list[str] = []
    settings: dict[str, Any] = {"epochs": 1, "answer_mass": weight, "select_share": 0.5}
    out = tmp_path / "adapter"
    training = of_recipe(base, files, "pact", least_answer_mass=1.0, **settings)
    train_recipe(training, out, log=said.append)
    log = read_training_log(out / "log.jsonl")
    masses = log.columns["answer_mass"]
    assert ((masses > 0) & (masses < 1)).all()
    assert (log.columns["am"] >= -np.log(masses) - 1e-5).all()  # Jensen
    weights = {"cf": 0.5, "pc": 0.5, "nr": 0.2, "emd": 0.3, "am": weight}
    parts = {name: log.columns.get(name, np.zeros(2)) for name in weights}
    weighted = sum(np.nan_to_num(parts[name]) * weights[name] for name in weights)
    expected = log.columns["ce"] + log.columns["ramp"] * weighted
    assert log.columns["total"] == pytest.approx(expected, abs=1e-4)
    card = json.loads((out / "training.json").read_text("utf-8"))
    assert (
        card["low_answer_mass_steps"] == log.logged("selection_answer_mass")[0].tolist() == [1, 2]
    )
    assert (card["selected_step"], card[SELECTION_NLL]) == log.selected
    assert_says(said[-1], "CAUTION", "answer mass of 100%", f"step {card['selected_step']}")
    assert all("BELOW 100%" in line for line in said if line.startswith("step "))


@pytest.mark.slow
def test_a_long_training_is_not_silent_between_two_selections(
    base: Path, files: RecipeFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pact_eval.training.recipe._SILENT_SECONDS", 0.0)
    said: list[str] = []
    train_recipe(of_recipe(base, files, select_share=1.0), tmp_path / "adapter", log=said.append)
    losses = read_training_log(tmp_path / "adapter" / "log.jsonl").columns["total"]
    steps = [
        f"step {number}/{losses.size}: loss {loss:.4f}" for number, loss in enumerate(losses, 1)
    ]
    assert said[: losses.size - 1] == steps[:-1]
    assert "selection NLL" in said[losses.size - 1]


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 3])
def test_a_training_that_broke_off_ends_as_an_undisturbed_one(
    undisturbed: Path, base: Path, files: RecipeFiles, tmp_path: Path, step: int
) -> None:
    training = of_recipe(base, files, dropout=0.1, checkpoint_seconds=0)
    out = tmp_path / "adapter"

    def break_off(line: str) -> None:
        if line.startswith(f"step {step}/"):  # before the line and the checkpoint of this step
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        train_recipe(training, out, log=break_off)
    assert (out / "checkpoint.pt").exists() == (step > 1)
    train_recipe(training, out)
    resumed, expected = content(out), content(undisturbed)
    for facts in (resumed, expected):
        del facts["training.json"]["settings"]["checkpoint_seconds"]
    assert resumed == expected


@pytest.mark.slow
def test_sigterm_saves_the_step_that_it_interrupts(
    undisturbed: Path, base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    training = of_recipe(base, files, dropout=0.1)  # the next checkpoint would be after a minute
    out = tmp_path / "adapter"

    def terminate(line: str) -> None:
        if line.startswith("step 2/"):
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(TrainingInterruptedError, match="step 2") as error:
        train_recipe(training, out, log=terminate)
    assert error.value.signal == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
    assert len((out / "log.jsonl").read_text("utf-8").splitlines()) == 2
    lines: list[str] = []
    train_recipe(training, out, log=lines.append)
    steps = [line for line in lines if line.startswith("step ")]
    assert steps[0].startswith("step 3/4")
    assert content(out) == content(undisturbed)


@pytest.mark.slow
def test_the_command_continues_after_sigkill(
    undisturbed: Path, base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    out = tmp_path / "adapter"
    words = ["pact", "--base-model", str(base)]
    words += ["--train", str(files.train), "--selection", str(files.selection)]
    words += ["--set", "dropout=0.1", "--set", "checkpoint_seconds=0", "--device", "cpu"]
    words += ["--out", str(out)]
    program = command_line("python", "-m", "pact_eval.training", *words)
    with subprocess.Popen(program, stdout=subprocess.DEVNULL) as process:
        while not (out / "checkpoint.pt").exists() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    assert main(words) == 0
    assert load_file(out / WEIGHTS).keys() == load_file(undisturbed / WEIGHTS).keys()
    assert (out / WEIGHTS).read_bytes() == (undisturbed / WEIGHTS).read_bytes()
    assert (out / "log.jsonl").read_bytes() == (undisturbed / "log.jsonl").read_bytes()
    assert {path.name for path in out.iterdir()} == FILES


@pytest.mark.slow
def test_a_damaged_checkpoint_starts_from_the_first_step(
    undisturbed: Path, base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    out = tmp_path / "adapter"
    out.mkdir()
    (out / "checkpoint.pt").write_bytes(b"torn")
    lines: list[str] = []
    train_recipe(of_recipe(base, files, dropout=0.1), out, log=lines.append)
    assert "damaged" in lines[0]
    assert content(out) == content(undisturbed)


@pytest.mark.slow
def test_a_finished_training_is_not_repeated_and_no_other_replaces_it(
    undisturbed: Path, base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    out = shutil.copytree(undisturbed, tmp_path / "adapter")
    before = content(out)
    times = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    train_recipe(of_recipe(base, files, dropout=0.1), out)
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == times
    (out / "checkpoint.pt").write_bytes(b"left by a kill at the end")
    (out / ".torn.tmp").mkdir()
    train_recipe(of_recipe(base, files, dropout=0.1), out)
    assert {path.name for path in out.iterdir()} == FILES
    with pytest.raises(InputError, match="another training"):
        train_recipe(of_recipe(base, files, dropout=0.2), out)
    # Its training record does not name these data.
    calibrated = replace(files, calibration=files.selection)
    with pytest.raises(InputError, match="another training"):
        train_recipe(of_recipe(base, calibrated, dropout=0.1), out)
    assert content(out) == before


@pytest.mark.slow
def test_a_checkpoint_of_another_training_is_refused(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    def break_off(line: str) -> None:
        if line.startswith("step 3/"):
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        train_recipe(of_recipe(base, files, checkpoint_seconds=0), tmp_path, log=break_off)
    with pytest.raises(InputError, match="checkpoint.pt: of another training"):
        train_recipe(of_recipe(base, files, checkpoint_seconds=0, rank=8), tmp_path)


@pytest.mark.slow
def test_records_have_the_hash_of_the_views(
    base: Path, files: RecipeFiles, undisturbed: Path, tmp_path: Path
) -> None:
    """Of the built-in training, and of any trainer."""
    encoder = Encoder(AutoTokenizer.from_pretrained(base), NIMBLE)
    plan = ViewPlan(seed=17)
    data = training_data(files.train, encoder, base=base, plan=plan)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), lora_config())
    data.save(model, tmp_path / "adapter", {"steps": 1, "seed": 17})
    for folder in (undisturbed, tmp_path / "adapter"):
        record = read_training_record(folder)
        assert record is not None
        fingerprint = record.training["views_sha256"]
        assert fingerprint == views_sha256(read_records(files.train), encoder, plan)


@pytest.mark.slow
def test_gradient_checkpointing_computes_twice_and_trains_the_same_weights(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    """Attention with gradients: one forward pass if activations are stored, else two."""
    passes = dict.fromkeys((False, True), 0)
    for flag in passes:

        def count(module: torch.nn.Module, _inputs: Any, flag: bool = flag) -> None:
            passes[flag] += isinstance(module, Qwen3Attention) and torch.is_grad_enabled()

        hook = register_module_forward_pre_hook(count)
        settings: dict[str, Any] = {"epochs": 1, "gradient_checkpointing": flag, "dropout": 0.0}
        train_recipe(of_recipe(base, files, "cross_entropy", **settings), tmp_path / str(flag))
        hook.remove()
    assert passes[True] == 2 * passes[False] > 0
    stored, computed = ((tmp_path / str(flag) / WEIGHTS).read_bytes() for flag in passes)
    assert stored == computed


@pytest.mark.slow
def test_unpaired_records_are_trained_on_and_recorded(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    mix = tmp_path / "mix.jsonl"
    lines = files.train.read_bytes().splitlines(keepends=True)
    mix.write_bytes(b"".join(lines[:2]))
    training = of_recipe(base, replace(files, unpaired=mix), "cross_entropy", epochs=1)
    train_recipe(training, tmp_path / "adapter")
    card = json.loads((tmp_path / "adapter/training.json").read_text("utf-8"))
    assert card["steps"] == 2  # 6 pairs and 2 records alone, 4 a step
    assert card["views"] == 14
    assert card["views_per_pair"] == 2.0
    record = read_training_record(tmp_path / "adapter")
    assert record is not None
    assert [file.name for file in record.roles["train"].files] == ["train.jsonl", "mix.jsonl"]
    # With weight 0 they decide nothing: they are not recorded, and nothing is trained again.
    without = of_recipe(base, files, "cross_entropy", epochs=1, unpaired_weight=0.0)
    train_recipe(without, tmp_path / "without")
    said: list[str] = []
    weightless = replace(without, files=replace(files, unpaired=mix))
    train_recipe(weightless, tmp_path / "without", log=said.append)
    assert said == [f"{tmp_path / 'without'}: this training is finished"]


@pytest.mark.slow
def test_some_source_families_choose_the_checkpoint(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    """At this rate, the NLL of one source family falls where that of both rises."""
    settings: dict[str, Any] = {"learning_rate": 0.02, "epochs": 4, "select_share": 0.1}
    settings |= {"precision": "float32"}
    few = {**settings, "selection_source_families": "education-04"}
    steps = []
    for name, chosen, families in (("few", few, 1), ("all", settings, 2)):
        out = tmp_path / name
        train_recipe(of_recipe(base, files, "cross_entropy", **chosen), out)
        log = read_training_log(out / "log.jsonl")
        card = json.loads((out / "training.json").read_text("utf-8"))
        assert (card["selected_step"], card[SELECTION_NLL]) == log.selected
        record = read_training_record(out)
        assert record is not None
        assert len(record.roles["selection"].hashes("source_families")) == families
        steps.append(card["selected_step"])
    assert steps[0] != steps[1]


@pytest.mark.slow
def test_families_to_train_on_are_evenly_spaced(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    train_recipe(
        of_recipe(base, files, "cross_entropy", train_families=2, epochs=1), tmp_path / "adapter"
    )
    record = read_training_record(tmp_path / "adapter")
    assert record is not None
    assert len(record.roles["train"].hashes("source_families")) == 2  # the first and the fourth
    with pytest.raises(InputError, match="at most 6"):
        train_recipe(of_recipe(base, files, train_families=7), tmp_path / "other")


def test_the_default_recipe_has_the_papers_settings() -> None:
    values = recipe_settings("pact", {}).to_json()
    assert values.keys() == SETTINGS.keys()
    weights = [values[name] for name in ("counterfactual", "permutation", "necessity", "ordinal")]
    assert weights == [0.5, 0.5, 0.2, 0.3]
    same = {name for name in values if hasattr(PACT_SETTINGS, name)} - {"targets"}
    assert len(same) > 20
    assert all(getattr(PACT_SETTINGS, name) == values[name] for name in same)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 1}, "did you mean epochs"),
        ({"epochs": 0}, "an integer of at least 1, got 0"),
        ({"epochs": True}, "got true/false"),
        ({"learning_rate": float("nan")}, "a number of 0 or more"),
        ({"dropout": 2}, "a number from 0 to 1"),
        ({"ablated_view": 1}, "true or false"),
        ({"quantize": "int8"}, "one of nf4"),
        ({"selection_source_families": "media-99"}, "has no media-99; it has education-04"),
    ],
)
def test_settings_that_are_not_valid_name_what_is(
    base: Path, files: RecipeFiles, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        train_recipe(of_recipe(base, files, **settings), tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_a_base_without_the_layers_of_lora_is_named(
    base: Path, files: RecipeFiles, tmp_path: Path
) -> None:
    training = of_recipe(base, files, targets="c_attn")
    with pytest.raises(AdapterError, match="no LoRA on c_attn.*set targets"):
        train_recipe(training, tmp_path / "adapter")


def test_training_in_four_bits_needs_a_gpu(base: Path, files: RecipeFiles, tmp_path: Path) -> None:
    """On a CPU, torch warns that products of bitsandbytes may have a wrong gradient."""
    with pytest.raises(AdapterError, match="needs a GPU"):
        train_recipe(of_recipe(base, files, quantize="nf4"), tmp_path / "adapter")
