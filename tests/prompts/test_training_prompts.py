"""Hashes of tokenizers and chat templates: of files, and of what is loaded from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import pact_fixtures
from pact_eval.errors import AdapterError
from pact_eval.prompts.encoding import Encoder, TrainingPrompts
from pact_eval.prompts.nimble import NIMBLE

MODEL = Path(pact_fixtures.__file__).parent / "model"
_VOCAB = {"a": 0, "b": 1, "ab": 2, "[UNK]": 3}


def _saved(model: Any, folder: Path) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model)).save_pretrained(folder)
    return folder


def test_files_against_the_loaded_tokenizer() -> None:
    loaded = TrainingPrompts.of(Encoder(AutoTokenizer.from_pretrained(MODEL), NIMBLE))
    files = TrainingPrompts.of_folder(MODEL)
    assert files.tokenizer_sha256 == loaded.tokenizer_sha256
    assert files.chat_template_sha256 == loaded.chat_template_sha256
    assert files.prompts_sha256 is None
    assert files.differences(loaded.to_json(), "model") == ()


@pytest.mark.parametrize(
    "models_of_a_kind",
    [
        (models.BPE(_VOCAB, [("a", "b")]), models.BPE(_VOCAB, [])),
        (
            models.WordPiece(_VOCAB, unk_token="[UNK]"),
            models.WordPiece(_VOCAB | {"c": 4}, unk_token="[UNK]"),
        ),
        (models.Unigram([("a", -1.0), ("b", -2.5)]), models.Unigram([("b", -1.0), ("a", -2.5)])),
    ],
    ids=["bpe", "wordpiece", "unigram"],
)
def test_another_vocabulary_has_another_hash(
    models_of_a_kind: tuple[Any, Any], tmp_path: Path
) -> None:
    one, other = (
        TrainingPrompts.of_folder(_saved(model, tmp_path / str(number))).tokenizer_sha256
        for number, model in enumerate(models_of_a_kind)
    )
    assert one is not None
    assert other is not None
    assert one != other


def test_merges_have_two_spellings(tmp_path: Path) -> None:
    folder = _saved(models.BPE(_VOCAB, [("a", "b")]), tmp_path)
    before = TrainingPrompts.of_folder(folder)
    path = folder / "tokenizer.json"
    value = json.loads(path.read_text())
    value["model"]["merges"] = ["a b"]
    path.write_text(json.dumps(value))
    assert TrainingPrompts.of_folder(folder) == before


@pytest.mark.parametrize(
    "named", [{"default": "{{ x }}"}, [{"name": "default", "template": "{{ x }}"}]]
)
def test_a_template_by_name_in_the_configuration(named: object, tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    by_name = TrainingPrompts.of_folder(tmp_path).chat_template_sha256
    (tmp_path / "chat_template.jinja").write_bytes(b"{{ x }}")
    assert TrainingPrompts.of_folder(tmp_path).chat_template_sha256 == by_name
    (tmp_path / "chat_template.jinja").write_bytes(b"{{ y }}")
    assert TrainingPrompts.of_folder(tmp_path).chat_template_sha256 != by_name


def test_files_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    assert TrainingPrompts.of_folder(tmp_path) == TrainingPrompts()
    (tmp_path / "tokenizer.json").write_text("{}")
    assert TrainingPrompts.of_folder(tmp_path) == TrainingPrompts()
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(AdapterError, match=r"tokenizer\.json: not valid JSON"):
        TrainingPrompts.of_folder(tmp_path)
