"""Antithetic orders as they are encoded here and asked of a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from messages import assert_says

from pact_eval.errors import InputError, RunSettingsError
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import read_run
from pact_eval.scoring.servers.request import ServerRequest
from pact_eval.scoring.servers.source import server_source
from pact_eval.scoring.windows import Dataset, read_dataset, score_windows
from scoring.conftest import HOLDOUT
from scoring.servers.loopback import serving, systemone
from scoring.servers.test_served_runs import dataset_file


def test_view_1_is_the_reverse_of_view_0_and_the_others_follow(tokenizer: Any) -> None:
    encoder = Encoder(tokenizer, NIMBLE)
    usual, antithetic = (
        encoder.encode(read_dataset(HOLDOUT, k=4, limit=20, orders=orders).records, 4, 0)
        for orders in ("balanced", "antithetic")
    )
    for start in range(0, len(usual), 4):
        before = [view.code_order for view in usual[start : start + 4]]
        after = [view.code_order for view in antithetic[start : start + 4]]
        assert after[0] == before[0]
        assert after[1] == before[0][::-1]
        assert set(after[2:]) <= set(before)


def test_a_served_run_has_them_and_its_settings_say_so(tmp_path: Path) -> None:
    data = dataset_file(tmp_path)

    def score(dataset: Dataset, server: Any) -> None:
        request = ServerRequest(urls=(server.url,), model="mine", probe=False)
        score_windows(server_source(request), dataset, tmp_path / "run", labels={})

    with serving(systemone) as server:
        score(read_dataset(data, k=3, orders="antithetic"), server)
        with pytest.raises(RunSettingsError, match="orders"):
            score(read_dataset(data, k=3), server)
    run = read_run(tmp_path / "run")
    assert run.settings["orders"] == "antithetic"
    assert "orders" not in read_dataset(data, k=3).settings  # runs of earlier versions resume
    choice = run.predictions.code_order[0, :, :3].tolist()
    assert choice[1] == choice[0][::-1]
    # A question that the server does not permute has one order still.
    assert {tuple(order) for order in run.predictions.code_order[2, :, :2].tolist()} == {(0, 1)}


def test_an_unknown_design_is_refused() -> None:
    with pytest.raises(InputError) as error:
        read_dataset(HOLDOUT, k=2, limit=1, orders="mirrored")  # type: ignore[arg-type]
    assert_says(error.value, "--orders", "balanced", "antithetic")
