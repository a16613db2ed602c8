"""Adapters of other trainers: plain `transformers.Trainer` with PEFT, and SFTTrainer of TRL.

Neither records a prompt contract. The user states it, and every surface says so.
"""

from __future__ import annotations

import json
import re
import shutil
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import transformers
from click.testing import CliRunner
from peft import LoraConfig, get_peft_model

import pact_fixtures
from pact_cli.audit.main import main as audit_main
from pact_cli.main import main
from pact_eval.data.records import read_records
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FIXTURES = Path(pact_fixtures.__file__).parent
BASE = "models/base"
STATED = "contract stated by the user"
LORA: dict[str, Any] = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]}
ARGUMENTS: dict[str, Any] = {
    "max_steps": 2, "per_device_train_batch_size": 1, "learning_rate": 1e-2, "save_strategy": "no",
    "report_to": "none", "disable_tqdm": True, "use_cpu": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder: the base below models/, four records, and an adapter of each trainer."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(FIXTURES / "model", folder / BASE)
    with (FIXTURES / "data" / "holdout.jsonl").open(encoding="utf-8") as file:
        (folder / "eval.jsonl").write_text("".join(islice(file, 4)), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
        with_transformers(Path("out") / "trainer")
        with_trl(Path("out") / "sft")
    return folder


def base_and_prompts() -> tuple[Any, Any, list[dict[str, Any]]]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(BASE)
    model = transformers.AutoModelForCausalLM.from_pretrained(BASE)
    views = Encoder(tokenizer, NIMBLE).encode(read_records(Path("eval.jsonl")), 1, 0)
    rows = [[*view.token_ids, view.code_tokens[0]] for view in views]
    return model, tokenizer, [{"input_ids": row, "labels": row} for row in rows]


def with_transformers(out: Path) -> None:
    model, tokenizer, rows = base_and_prompts()
    model = get_peft_model(model, LoraConfig(**LORA))
    arguments = transformers.TrainingArguments(str(out), **ARGUMENTS)
    trainer = transformers.Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer)
    trainer.train()
    trainer.save_model()


def with_trl(out: Path) -> None:
    import datasets
    from trl.trainer.sft_config import SFTConfig
    from trl.trainer.sft_trainer import SFTTrainer

    model, tokenizer, rows = base_and_prompts()
    texts = [{"text": tokenizer.decode(row["input_ids"])} for row in rows]
    trainer = SFTTrainer(
        model,
        SFTConfig(str(out), bf16=False, **ARGUMENTS),
        train_dataset=datasets.Dataset.from_list(texts),
        processing_class=tokenizer,
        peft_config=LoraConfig(**LORA, use_rslora=True, task_type="CAUSAL_LM"),
    )
    trainer.train()
    trainer.save_model()


@pytest.fixture(params=["trainer", "sft"])
def adapter(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    place: Path = Path("out") / request.param
    config = json.loads((place / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == BASE  # as PEFT records it: from the working folder
    assert not (place / "schema_config.json").exists()
    return place


def run(*arguments: str | Path, command: Any = main, code: int = 0) -> str:
    """Run a command; return stdout and stderr with the line breaks of the terminal undone."""
    done = CliRunner().invoke(command, [*map(str, arguments)])
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def score(adapter: Path, out: str, *options: str, code: int = 0) -> str:
    arguments = ("--data", "eval.jsonl", "--k", "1", "--out", out, *options)
    return run("score", adapter, *arguments, code=code)


def test_an_adapter_of_any_trainer_is_scored_on_the_contract_that_is_stated(
    adapter: Path, tmp_path: Path
) -> None:
    """Reports, verification and exports say who stated it."""
    place = str(tmp_path / "mine")
    assert STATED in score(adapter, place, "--contract", "nimble")
    recorded = json.loads((tmp_path / "mine" / "run.json").read_text())
    assert recorded["settings"]["contract"]["stated_by"] == "user"
    assert recorded["settings"]["contract"]["mismatch"] is None
    other = str(tmp_path / "base")
    score_base = ("--base-model", BASE, "--no-adapter", "--data", "eval.jsonl", "--k", "1")
    assert STATED not in run("score", *score_base, "--out", other)
    assert STATED in run("report", place)
    assert STATED in run("compare", place, other)
    assert STATED in run("verify", place)
    assert STATED not in run("report", other)
    out = tmp_path / "exported"
    message = run("export", adapter, "--out", out, code=1)
    assert "--write-contract nimble" in message
    run("export", adapter, "--out", out, "--contract", "nimble")
    assert STATED in (out / "README.md").read_text()
    allowed = str(tmp_path / "allowed")
    score(adapter, allowed, "--allow", "other-contract")
    for said in (run("report", allowed), run("verify", allowed)):
        assert "contract mismatch allowed" in said


def test_the_refusal_gives_commands_that_work(adapter: Path, tmp_path: Path) -> None:
    """As it is printed: with the option, and with the file that `pact-audit` writes."""
    message = score(adapter, str(tmp_path / "mine"), code=1)
    assert "--contract nimble" in message
    written = re.search(r"pact-audit (adapter \S+ --write-contract nimble)", message)
    assert written is not None
    mine = tmp_path / "adapter"
    shutil.copytree(adapter, mine)
    command = written[1].replace(str(adapter), str(mine)).split()
    audit = run(*command, "--base-model", BASE, command=audit_main, code=3)
    assert STATED in audit
    assert "1 error" in audit  # the pickled training_args.bin that both trainers leave there
    assert "files/pickled" in audit
    assert STATED in run("score", mine, "--data", "eval.jsonl", "--out", str(tmp_path / "run"))
    assert STATED in run("verify", tmp_path / "run")
    assert "already" in run(*command, command=audit_main, code=1)
