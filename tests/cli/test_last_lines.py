"""What commands say last, against the numbers of their own JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import runner
from messages import assert_says
from preregistration.checks import criteria
from run_frames import other_items, rows, write_run

from pact_cli.main import main

run = runner(main)
FAST = ("--resamples", 200)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("last")
    for arm, skill in (("a", 3.0), ("b", 0.5)):
        for seed in (1, 2):
            frame = rows(seed if arm == "a" else 10 + seed, skill=skill)
            write_run(home / f"{arm}-{seed}", frame, arm=arm, seed=seed)
    write_run(home / "fit", other_items(rows(5)), arm="a", seed=1)
    (home / "h.toml").write_text(criteria())
    return home


MORE_ACCURATE = "a-1 is more accurate than b-1"


def text_of(*arguments: object) -> str:
    return " ".join(run(*arguments).stdout.split())


def points(value: float) -> str:
    return f"{100 * value:+.1f}"


def test_the_answer_of_compare_has_the_numbers_of_its_json(home: Path) -> None:
    pair = ("compare", home / "a-1", home / "b-1", *FAST)
    value = json.loads(run(*pair, "--json").stdout)
    (answer,), (comparison,) = value["answer"]["better"], value["comparisons"]
    whole = comparison["comparison"]["groups"][0]["metrics"]["accuracy"]
    accuracies = [claim for claim in answer["claims"] if claim["metric"] == "accuracy"]
    assert accuracies[0]["difference"] == whole["difference"]
    assert [claim["k"] for claim in accuracies] == [1, 3]
    first, *others = run(*pair).stdout.splitlines()
    assert first.startswith(f"{MORE_ACCURATE} (p < 0.001, adjusted): ")
    lead, ensemble = (points(claim["difference"]["value"]) for claim in accuracies)
    assert f"{lead.removeprefix('+')} points [" in first
    assert any(line.startswith("  3 views") and f"{ensemble} [" in line for line in others)
    turned = run("compare", home / "b-1", home / "a-1", *FAST).stdout.splitlines()
    assert turned[0] == first
    last = text_of(*pair, "--full").rpartition(MORE_ACCURATE)[2]
    assert last.startswith(" (p < 0.001, adjusted): a-1 - b-1 +")


def test_every_table_of_arms_ends_with_its_answer(home: Path) -> None:
    text = text_of("compare", "--arms", f"a={home}/a-*", f"b={home}/b-*", *FAST, "--full")
    last = text[text.rindex(": a - b ") :]
    assert_says(last, "Over 2 seeds", "new families", "same seeds")


def test_sweep_starts_with_the_gain_of_views(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    words = ("report", "--views", home / "a-1", *FAST)
    points_of = json.loads(run(*words, "--json").stdout)["points"]
    estimates = points_of[-1]["group"]["estimates"]
    gain, flips = (estimates[name]["value"] for name in ("ensemble_gain", "flip_rate"))
    brief = run(*words).stdout.splitlines()
    assert len(brief) <= 12
    assert all(len(line) <= 100 for line in brief)
    assert [line.split()[0] for line in brief if line.split()[0] in "123"] == ["1", "2", "3"]
    for text in (text_of(*words), text_of(*words, "--full")):
        first, _, rest = text.partition("3 views - view 0 ")
        assert len(first) < 60
        assert rest.startswith(points(gain) if gain else "0.0")
        assert f"to {100 * flips:.1f} [" in rest


def test_calibrate_ends_with_its_effect(home: Path) -> None:
    words = ("calibrate", home / "fit", "--force", "--mode", "scalar", "--holdout", home / "a-1")
    result = json.loads(run(*words, "--json").stdout)["result"]
    text = text_of(*words)
    assert str(home / "a-1") in json.dumps(result)
    last = text.rpartition(f"{home / 'a-1'}: ")[2]
    assert last.startswith(("No effect", "The probabilities get"))
    assert_says(last, "nats", "3 families with an error", "no interval")


def test_scorecard_ends_with_counts(home: Path) -> None:
    runs = (home / "a-1", home / "b-1")
    text = text_of("scorecard", home / "h.toml", *runs, *FAST)
    last = text[text.rindex("Of 1 hypotheses") :]
    assert "by value 1 supported (H1)" in last
    assert last.endswith("Not registered.")


def test_the_rates_of_a_report_are_in_its_json(home: Path) -> None:
    value = json.loads(run("report", home / "a-1", *FAST, "--json").stdout)
    single, ensemble = value["rates"]
    assert (single["k"], ensemble["k"]) == (1, 3)
    metric = value["groups"][0]["metrics"]["accuracy"]["value"]
    assert single["accuracy"]["value"] == metric
