"""Access tokens typed in names of the Hub: refused, and not repeated."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from messages import assert_says

from pact_cli.main import main
from pact_eval.errors import InputError
from pact_eval.hub import dataset_name, model_name

TOKEN = "hf_" + "aB3" * 11 + "x"


@pytest.mark.parametrize(
    "place",
    [
        f"owner/name@{TOKEN}",
        f"hf://owner/name@{TOKEN}",
        f"hf://owner/name%40{TOKEN}",
        f"hf://{TOKEN}@owner/name",
    ],
)
def test_a_token_in_the_name_of_a_model_is_not_repeated(place: str) -> None:
    with pytest.raises(InputError) as error:
        model_name(place)
    assert_says(error.value, "OWNER/NAME[@REVISION]", "token", "HF_TOKEN")
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize("end", [f"@{TOKEN}", f"@{TOKEN}/data/test.csv", f"/data/{TOKEN}.csv"])
def test_a_token_in_the_name_of_data_is_not_repeated(end: str) -> None:
    with pytest.raises(InputError) as error:
        dataset_name(f"hf://datasets/owner/name{end}")
    assert_says(error.value, "hf://datasets/OWNER/NAME[@REVISION][/PATH]", "HF_TOKEN")
    assert TOKEN not in str(error.value)


def test_short_revisions_that_begin_alike_are_revisions() -> None:
    name = model_name("owner/name@hf_finetuned-v2")
    assert name is not None
    assert name.revision == "hf_finetuned-v2"


def test_commands_do_not_repeat_a_token() -> None:
    words = ("score", f"owner/name@{TOKEN}", "--data", "data.jsonl", "--out", "run")
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code in (1, 2)
    assert TOKEN not in refused.output
