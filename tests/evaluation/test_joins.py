"""Which runs belong together, and what their folders alone show: in memory, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from messages import assert_says

from pact_eval._choices import Allowance
from pact_eval._json import Json
from pact_eval.errors import InputError
from pact_eval.evaluation.joins import (
    Incompatibility,
    OtherTraining,
    SameRun,
    SameWeights,
    UnsealedFiles,
    check_comparable,
    join,
    other_training,
    same_runs,
    same_weights,
    select_role,
    unsealed,
)
from pact_eval.runs.custody import TrainedRole
from pact_eval.runs.folder import RunFolder
from pact_eval.runs.provenance import Provenance

OTHER_DATA: tuple[Allowance, ...] = ("other-data",)
OTHER_BASE: tuple[Allowance, ...] = ("other-base",)


def run(name: str, *, data: str | None = None, weights: str | None = None, **top: Any) -> RunFolder:
    """Return a run with these facts, whose folder does not exist."""
    settings: dict[str, Json] = {
        "data": {} if data is None else {"sha256": data * 64},
        "adapter": None if weights is None else {"sha256": weights * 64},
    }
    recorded: dict[str, Json] = {"source": "score", "settings": settings, **top}
    return RunFolder(Path(name), Provenance.of(recorded))


def seal(digest: str) -> dict[str, Json]:
    hashes = ("predictions_sha256", "references_sha256", "provenance_sha256")
    return {**dict.fromkeys(hashes, digest * 64), "items": 1, "views": 1, "k": 1}


def test_runs_for_evaluation_are_kept_wherever_they_stand() -> None:
    calibration = run("c", role="calibration")
    evaluation, unnamed = run("e", role="evaluation"), run("u")
    selection = run("s", role="selection")
    kept, skipped = select_role([calibration, evaluation, unnamed])
    assert kept == (evaluation, unnamed)
    assert [(entry.run, entry.role, entry.kept) for entry in skipped] == [
        ("c", "calibration", "evaluation")
    ]
    kept, skipped = select_role([calibration, selection, calibration])
    assert kept == (calibration, calibration)
    assert [(entry.run, entry.kept) for entry in skipped] == [("s", "calibration")]
    assert select_role([]) == ((), ())


def test_two_seeds_with_the_same_weights() -> None:
    runs = [
        run("a", weights="1", seed=17),
        run("b", weights="2", seed=17),
        run("c", weights="1", seed=17),
        run("d", weights="1", seed=18),
        run("e", weights="1"),
        run("f", seed=19),
        run("g", weights="1", seed=0),
    ]
    assert same_weights(runs) == (
        SameWeights("a", "d", (17, 18), "1" * 64),
        SameWeights("a", "g", (17, 0), "1" * 64),
    )
    assert same_weights(runs[:3]) == ()
    assert same_weights([run("e", weights="1"), run("a", weights="1", seed=17)]) == ()
    # Seed 0 is a seed.
    (first,) = same_weights([run("g", weights="1", seed=0), run("a", weights="1", seed=17)])
    assert first.seeds == (0, 17)


def test_runs_with_the_predictions_of_an_earlier_one() -> None:
    runs = [run(name, seal=seal(digest)) for name, digest in zip("abcde", "12131", strict=True)]
    assert same_runs([run("none"), *runs]) == (
        SameRun("a", "c", "1" * 64),
        SameRun("a", "e", "1" * 64),
    )
    assert same_runs([runs[0], runs[0]]) == ()
    assert_says(SameRun("a", "c", "1" * 64), "a and c are one run", "111111111111)")
    assert_says(SameRun("a", "a", "1" * 64), "a is compared with itself")


def test_files_that_no_seal_covers(tmp_path: Path) -> None:
    made = [run(str(tmp_path / name), seal=seal("1")) for name in "ab"]
    for folder in made:
        folder.folder.mkdir()
    (made[1].folder / "parts").mkdir()
    (made[1].folder / "unanswered.parquet").touch()
    assert unsealed(made) == (UnsealedFiles(made[1].place, ("unanswered.parquet", "parts")),)
    assert_says(unsealed(made)[0], made[1].place, "unanswered.parquet and parts")


def test_every_run_is_compared_with_every_earlier_one() -> None:
    """The first run does not record its data, so it agrees with all others."""
    blind, one, two, three = (
        run("blind"),
        run("one", data="1"),
        run("two", data="2"),
        run("three", data="2"),
    )
    with pytest.raises(InputError) as refused:
        check_comparable([blind, one, two], allow=())
    assert_says(
        refused.value,
        "one and two do not belong together",
        "dataset: 111111111111 and 222222222222",
        "--allow other-data",
    )
    unlike = check_comparable([blind, one, two, three], allow=OTHER_DATA)
    assert [(entry.first, entry.other) for entry in unlike] == [("one", "two"), ("one", "three")]
    assert [difference.fact for difference in unlike[0].differences] == ["data"]
    assert check_comparable([blind, two, three], allow=()) == ()
    assert join(blind, one, allow=()) == ()
    (accepted,) = join(one, two, allow=OTHER_DATA)
    assert accepted == Incompatibility("one", "two", accepted.differences)
    with pytest.raises(InputError):
        join(one, two, allow=OTHER_BASE)


def trained(**digests: str) -> dict[str, Json]:
    roles: dict[str, Json] = {
        role: {"files": [f"{role}.jsonl"], "records": 3, "families": 2, "digest": digest}
        for role, digest in digests.items()
    }
    return {"training": {"sha256": "0" * 64, "roles": roles}}


def test_different_trainings_are_named_once_each() -> None:
    runs = [
        run("unstated"),
        run("first", custody=trained(train="1", selection="1")),
        run("same", custody=trained(train="1", selection="1")),
        run("other", custody=trained(train="2", selection="1")),
        run("like other", custody=trained(train="2", selection="1")),
        run("more", custody=trained(train="1", selection="1", calibration="1")),
        run("less", custody=trained(train="1")),
        run("none", custody=trained()),
    ]
    role = TrainedRole(("train.jsonl",), 3, 2, "1")
    changed = TrainedRole(("train.jsonl",), 3, 2, "2")
    assert other_training(runs) == (
        OtherTraining("first", "other", ("train",), (role, changed)),
        OtherTraining("first", "more", ("calibration",), (role, role)),
        OtherTraining("first", "less", ("selection",), (role, role)),
        OtherTraining("first", "none", ("train", "selection"), (role, None)),
    )
    assert other_training(runs[:3]) == ()
    assert other_training([]) == ()
