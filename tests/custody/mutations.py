"""Ways to hide that an adapter saw the evaluation data, each with the command that finds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch
from builders import write_jsonl
from click.testing import CliRunner, Result
from custody.adapters import FIXTURES, HOLDOUT, adapter_trained_on
from safetensors.torch import load_file, save_file

from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval
from pact_eval._files import sha256_of_file
from pact_eval.data.ablation import write_ablated_records
from pact_eval.data.splits import write_manifest

Row = dict[str, Any]
Words = tuple[object, ...]

N_EVALUATED: Final = 12
N_TRAINED: Final = 24


def ran(words: Words) -> Result:
    """Run a command: its name, or "audit" for `pact-audit adapter`, and its arguments."""
    name, *arguments = map(str, words)
    if name == "audit":
        return CliRunner().invoke(pact_audit, ["adapter", *arguments])
    return CliRunner().invoke(pact_eval, [name, *arguments])


def records(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


@dataclass
class Setting:
    """A dataset and an adapter that was trained on its training file.

    Attributes:
        home: the folder of both, and of a run of the adapter on the evaluation file.
        evaluated: the records of the evaluation file.
        trained: those of the training file.
    """

    home: Path
    evaluated: list[Row] = field(default_factory=lambda: records(HOLDOUT)[:N_EVALUATED])
    trained: list[Row] = field(
        default_factory=lambda: records(HOLDOUT.with_name("train.jsonl"))[:N_TRAINED]
    )

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def holdout(self) -> Path:
        return self.data / "holdout.jsonl"

    @property
    def adapter(self) -> Path:
        return self.home / "adapter"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def record(self) -> Path:
        return self.adapter / "training_data.json"

    @property
    def schema(self) -> Path:
        return self.adapter / "schema_config.json"

    def write_data(self) -> None:
        self.data.mkdir()
        write_jsonl(self.holdout, self.evaluated)
        write_jsonl(self.data / "train.jsonl", self.trained)
        write_manifest(self.data)

    def train(self, *train: Path, **roles: Sequence[Path]) -> None:
        """Replace the adapter by one that was trained on some files."""
        shutil.rmtree(self.adapter, ignore_errors=True)
        adapter_trained_on(self.adapter, {"steps": 3}, train=train, **roles)

    def train_on(self, rows: Iterable[Row], name: str = "elsewhere/train.jsonl") -> None:
        """Replace the adapter by one that was trained on these records and the training file."""
        path = self.home / name
        path.parent.mkdir(exist_ok=True)
        self.train(write_jsonl(path, [*rows, *self.trained]))

    def scored(self) -> Result:
        """Write the run of the adapter on the evaluation file."""
        return ran(("score", self.adapter, "--data", self.holdout, "--out", self.run, "--k", 1))

    def score(self) -> Words:
        out = self.home / "again"
        return ("score", self.adapter, "--data", self.holdout, "--out", out, "--k", 1)

    def audit(self, *options: object) -> Words:
        return ("audit", self.adapter, *options)

    def audit_with_data(self) -> Words:
        return self.audit("--data", self.data, "--data", self.home / "elsewhere")

    def verify(self, *options: object) -> Words:
        return ("verify", self.run, *options)


def edit_json(path: Path, **changes: Any) -> None:
    value = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def renamed(row: Row) -> Row:
    names = {key: f"other {row[key]}" for key in ("id", "family", "source_family")}
    return row | names


def with_first_text(row: Row, change: Callable[[str], str]) -> Row:
    """Change the first text of a context."""
    texts = iter([change])
    return with_context(row, lambda text: next(texts, str)(text))


def with_context(row: Row, change: Callable[[str], str]) -> Row:
    """Change every text of a context."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [changed(inner) for inner in value]
        return change(value) if isinstance(value, str) else value

    return row | {"input": row["input"] | {"state": changed(row["input"]["state"])}}


def one_word(text: str) -> str:
    first, space, rest = text.partition(" ")
    return f"{first}, indeed{space}{rest}"


def turned(value: Any) -> Any:
    """Reverse the order of the keys of all objects."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(inner) for inner in value] if isinstance(value, list) else value


def swapped_weights(folder: Path) -> None:
    other = FIXTURES / "adapters" / "nimble_recipe" / "adapter_model.safetensors"
    shutil.copyfile(other, folder / "adapter_model.safetensors")


def base_trained_further(setting: Setting) -> Path:
    """Copy the base, and change its weights."""
    base = setting.home / "base"
    shutil.copytree(FIXTURES / "model", base)
    weights = load_file(base / "model.safetensors")
    name = next(iter(weights))
    weights[name] = weights[name] + torch.full_like(weights[name], 0.01)
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    edit_json(setting.schema, model=str(base))
    return base


def edit_record(setting: Setting, change: Callable[[dict[str, Any]], object]) -> None:
    value = json.loads(setting.record.read_text("utf-8"))
    change(value)
    setting.record.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


@dataclass(frozen=True)
class Mutation:
    """One way to hide a leak.

    Attributes:
        what: what was done, as the docs call it.
        plant: does it, and returns the command that finds it.
        command: that command, as the docs call it.
        exit_code: its exit code.
        names: what its output must contain.
        scores: whether a model scores the data before.
    """

    what: str
    plant: Callable[[Setting], Words]
    command: str
    exit_code: int
    names: str
    scores: bool = False


MUTATIONS: Final[list[Mutation]] = []


def mutation(
    what: str, command: str, exit_code: int, names: str, *, scores: bool = False
) -> Callable[[Callable[[Setting], Words]], Callable[[Setting], Words]]:
    """List a mutation."""

    def listed(plant: Callable[[Setting], Words]) -> Callable[[Setting], Words]:
        MUTATIONS.append(Mutation(what, plant, command, exit_code, names, scores))
        return plant

    return listed


FAMILY: Final = "commerce-02-001"  # of the first records of the evaluation file
SCORE: Final = "pact-eval score"
AUDIT: Final = "pact-audit adapter"
AUDIT_DATA: Final = "pact-audit adapter --data"
VERIFY: Final = "pact-eval verify"


# Training and selection on evaluated data.


@mutation("trained on the evaluation file", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    return setting.score()


@mutation("trained on the evaluation file, asked of the adapter", AUDIT_DATA, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    return setting.audit("--data", setting.data)


@mutation("trained on the evaluation file, scored with `--workers`", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    return (*setting.score(), "--workers", 2)


@mutation("one family leaked into the training file", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(setting.evaluated[:2])
    return setting.score()


@mutation("one member of a family leaked", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(setting.evaluated[1:2])
    return setting.score()


@mutation("one family leaked into a second training file", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    more = write_jsonl(setting.home / "more.jsonl", setting.evaluated[:2])
    setting.train(setting.data / "train.jsonl", more)
    return setting.score()


@mutation("record ids renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(row | {"id": f"other {row['id']}"} for row in setting.evaluated)
    return setting.score()


@mutation("families renamed", SCORE, 3, "by their contexts under other names")
def _(setting: Setting) -> Words:
    setting.train_on(row | {"family": f"other {row['family']}"} for row in setting.evaluated)
    return setting.score()


@mutation("ids, families and source families renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(renamed(row) for row in setting.evaluated)
    return setting.score()


@mutation("case and spaces of family names changed, contexts edited", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    rows = (with_first_text(row, one_word) for row in setting.evaluated)
    setting.train_on(row | {"family": f" {row['family'].upper()} "} for row in rows)
    return setting.score()


@mutation("case and spaces of contexts changed, names renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    def loud(text: str) -> str:
        return text.upper().replace(" ", "  ")

    spaced = (with_context(row, loud) for row in setting.evaluated)
    setting.train_on(renamed(row) for row in spaced)
    return setting.score()


@mutation("contexts written as the JSON text of a prompt, names renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    def as_text(row: Row) -> Row:
        state = row["input"]["state"]
        text = state if isinstance(state, str) else json.dumps(state, ensure_ascii=False)
        return row | {"input": row["input"] | {"state": text}}

    rows = [row for row in setting.evaluated if not isinstance(row["input"]["state"], str)]
    setting.train_on(renamed(as_text(row)) for row in rows)
    return setting.score()


@mutation("wide letters and invisible signs in contexts, names renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    wide = {code: code + 0xFEE0 for code in range(ord("A"), ord("z") + 1) if chr(code).isalpha()}

    def disguised(text: str) -> str:
        return text.translate(wide).replace("ｏ", "ｏ\u00ad\u200d")

    rows = (with_context(row, disguised) for row in setting.evaluated)
    setting.train_on(renamed(row) for row in rows)
    return setting.score()


@mutation("contexts edited by a word", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(with_first_text(row, one_word) for row in setting.evaluated)
    return setting.score()


@mutation("keys of all objects in another order, names renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(turned(renamed(row)) for row in setting.evaluated)
    return setting.score()


@mutation("questions and answers changed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    def with_other_question(row: Row) -> Row:
        question = row["input"]["questions"]["decision"] | {"instructions": "Anything else?"}
        return row | {"input": row["input"] | {"questions": {"decision": question}}}

    setting.train_on(with_other_question(row) for row in setting.evaluated)
    return setting.score()


@mutation("records in another order", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(reversed(setting.evaluated))
    return setting.score()


@mutation("training file renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(setting.evaluated, "elsewhere/notes.jsonl")
    return setting.score()


@mutation("folder of the data copied, evaluation file renamed", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    copy = setting.home / "copy"
    shutil.copytree(setting.data, copy)
    (copy / "manifest.json").unlink()
    (copy / "holdout.jsonl").rename(copy / "new.jsonl")
    words = setting.score()
    return tuple(copy / "new.jsonl" if word == setting.holdout else word for word in words)


@mutation("folder of the adapter copied", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    setting.adapter.rename(setting.home / "copy")
    shutil.copytree(setting.home / "copy", setting.adapter)
    return setting.score()


@mutation("selected on the evaluation file", SCORE, 3, "selected on")
def _(setting: Setting) -> Words:
    setting.train(setting.data / "train.jsonl", selection=[setting.holdout])
    return setting.score()


@mutation("selected on one evaluated family", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    part = write_jsonl(setting.home / "selection.jsonl", setting.evaluated[:2])
    setting.train(setting.data / "train.jsonl", selection=[part])
    return setting.score()


@mutation("scored on ablated contexts of the training", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    ablated = setting.home / "ablated.jsonl"
    write_ablated_records(setting.holdout, ablated)
    words = setting.score()
    return tuple(ablated if word == setting.holdout else word for word in words)


@mutation("contexts edited by a word, ids and families renamed", AUDIT_DATA, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(renamed(with_first_text(row, one_word)) for row in setting.evaluated)
    return setting.audit_with_data()


@mutation("the same, training file renamed too", AUDIT_DATA, 3, FAMILY)
def _(setting: Setting) -> Words:
    rows = (renamed(with_first_text(row, one_word)) for row in setting.evaluated)
    setting.train_on(rows, "elsewhere/notes.jsonl")
    return setting.audit_with_data()


@mutation("the same of one family only", AUDIT_DATA, 3, FAMILY)
def _(setting: Setting) -> Words:
    setting.train_on(renamed(with_first_text(row, one_word)) for row in setting.evaluated[:2])
    return setting.audit_with_data()


@mutation("the same to select on", AUDIT_DATA, 3, FAMILY)
def _(setting: Setting) -> Words:
    (setting.home / "elsewhere").mkdir()
    rows = [renamed(with_first_text(row, one_word)) for row in setting.evaluated]
    part = write_jsonl(setting.home / "elsewhere" / "selection.jsonl", rows)
    setting.train(setting.data / "train.jsonl", selection=[part])
    return setting.audit_with_data()


# The record and what it is bound to.


@mutation("record removed", SCORE, 1, "training_data.json")
def _(setting: Setting) -> Words:
    setting.record.unlink()
    return setting.score()


@mutation("record removed, asked of the adapter", AUDIT, 3, "training-missing")
def _(setting: Setting) -> Words:
    setting.record.unlink()
    return setting.audit()


@mutation("record of another adapter", AUDIT, 5, "training-edited")
def _(setting: Setting) -> Words:
    shutil.copyfile(FIXTURES / "adapters" / "pact" / "training_data.json", setting.record)
    return setting.audit()


@mutation("record of another adapter, and its hash written too", AUDIT, 5, "training-other-weights")
def _(setting: Setting) -> Words:
    other = FIXTURES / "adapters" / "nimble_recipe" / "training_data.json"
    shutil.copyfile(other, setting.record)
    edit_json(setting.schema, training_data_sha256=sha256_of_file(setting.record))
    return setting.audit()


@mutation("record edited: a family left out", SCORE, 5, "training_data.json")
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    edit_record(setting, lambda value: value["roles"]["train"].update(families=""))
    return setting.score()


@mutation("record edited: other files named", AUDIT, 5, "training-edited")
def _(setting: Setting) -> Words:
    edit_record(setting, lambda value: value["roles"]["train"].update(files=[]))
    return setting.audit()


@mutation("record replaced by one without data", SCORE, 5, "training_data.json")
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    edit_record(setting, lambda value: value.update(roles={}))
    return setting.score()


@mutation("record damaged", AUDIT, 3, "training-unreadable")
def _(setting: Setting) -> Words:
    setting.record.write_bytes(setting.record.read_bytes()[:-100])
    return setting.audit()


@mutation("record no longer named in `schema_config.json`", AUDIT, 3, "training-unnamed")
def _(setting: Setting) -> Words:
    value = json.loads(setting.schema.read_text("utf-8"))
    del value["training_data_sha256"]
    setting.schema.write_text(json.dumps(value), "utf-8")
    return setting.audit()


@mutation("weights of another adapter", SCORE, 5, "a record of the weights")
def _(setting: Setting) -> Words:
    swapped_weights(setting.adapter)
    return setting.score()


@mutation("base model trained further", SCORE, 1, "another base model")
def _(setting: Setting) -> Words:
    base_trained_further(setting)
    return setting.score()


@mutation("base trained further, its hash written too", AUDIT, 5, "training-base-differs")
def _(setting: Setting) -> Words:
    facts = {"base_sha256": sha256_of_file(FIXTURES / "model" / "model.safetensors")}
    shutil.rmtree(setting.adapter)
    adapter_trained_on(setting.adapter, facts, train=[setting.data / "train.jsonl"])
    base = base_trained_further(setting)
    edit_json(setting.schema, base_weights_sha256=sha256_of_file(base / "model.safetensors"))
    return setting.audit()


@mutation("the same, scored", SCORE, 1, "from training_data.json")
def _(setting: Setting) -> Words:
    facts = {"base_sha256": sha256_of_file(FIXTURES / "model" / "model.safetensors")}
    shutil.rmtree(setting.adapter)
    adapter_trained_on(setting.adapter, facts, train=[setting.data / "train.jsonl"])
    base = base_trained_further(setting)
    edit_json(setting.schema, base_weights_sha256=sha256_of_file(base / "model.safetensors"))
    return setting.score()


# The files of the dataset.


@mutation("a word of the evaluation file changed", SCORE, 5, "manifest.json")
def _(setting: Setting) -> Words:
    text = setting.holdout.read_text("utf-8")
    setting.holdout.write_text(text.replace(" the ", " a ", 1), "utf-8")
    return setting.score()


@mutation("a record of the evaluation file left out", SCORE, 5, "manifest.json")
def _(setting: Setting) -> Words:
    write_jsonl(setting.holdout, setting.evaluated[:-1])
    return setting.score()


@mutation("another file under the name of the evaluation file", SCORE, 5, "manifest.json")
def _(setting: Setting) -> Words:
    shutil.copyfile(setting.data / "train.jsonl", setting.holdout)
    return setting.score()


def _family_in(setting: Setting, name: str) -> Words:
    rows = [row | {"id": f"other {row['id']}"} for row in setting.evaluated[:2]]
    write_jsonl(setting.data / name, rows)
    write_manifest(setting.data)
    return setting.score()


@mutation("an evaluated family in another training file of the manifest", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    return _family_in(setting, "train-more.jsonl")


@mutation("an evaluated family in the selection file", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    return _family_in(setting, "selection.jsonl")


@mutation("an evaluated family in the calibration file", SCORE, 3, FAMILY)
def _(setting: Setting) -> Words:
    return _family_in(setting, "calibration.jsonl")


# Roles of families, and what is changed after the scoring.


@mutation("selected on the calibration families", AUDIT, 3, "roles-overlap")
def _(setting: Setting) -> Words:
    part = write_jsonl(setting.home / "part.jsonl", records(HOLDOUT)[40:44])
    setting.train(setting.data / "train.jsonl", selection=[part], calibration=[part])
    return setting.audit()


@mutation("the same, asked of a run of the adapter", VERIFY, 3, "selection 2", scores=True)
def _(setting: Setting) -> Words:
    part = write_jsonl(setting.home / "part.jsonl", records(HOLDOUT)[40:44])
    setting.train(setting.data / "train.jsonl", selection=[part], calibration=[part])
    shutil.rmtree(setting.run)
    assert setting.scored().exit_code == 0
    return setting.verify()


@mutation("thresholds chosen on the evaluated families", VERIFY, 3, "thresholds 6")
def _(setting: Setting) -> Words:
    families = list(dict.fromkeys(row["family"] for row in setting.evaluated))
    chosen = setting.home / "thresholds.json"
    chosen.write_text(json.dumps({"chosen_on": {"families": families}}), "utf-8")
    return setting.verify("--thresholds", chosen)


@mutation("record removed after the scoring", VERIFY, 5, "training_data.json")
def _(setting: Setting) -> Words:
    setting.record.unlink()
    return setting.verify()


@mutation("adapter trained on the data after the scoring", VERIFY, 5, "training_data.json")
def _(setting: Setting) -> Words:
    setting.train(setting.holdout)
    return setting.verify()


@mutation("evaluation file changed after the scoring", VERIFY, 5, "holdout.jsonl")
def _(setting: Setting) -> Words:
    text = setting.holdout.read_text("utf-8")
    setting.holdout.write_text(text.replace(" the ", " a ", 1), "utf-8")
    return setting.verify()


@mutation("the chain of custody removed from `run.json`", VERIFY, 5, "seal")
def _(setting: Setting) -> Words:
    edit_json(setting.run / "run.json", custody={})
    return setting.verify()
