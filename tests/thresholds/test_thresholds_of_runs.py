"""Thresholds of runs: what is written, what a check says, and the function that callers copy."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import runner
from messages import assert_says
from scipy.stats import binomtest
from thresholds.simulated import run

from pact_cli.main import main
from pact_eval.calibration.temperatures import KINDS
from pact_eval.errors import InputError, TamperedError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.metrics import log_softmax
from pact_eval.thresholds import accept as accept_module
from pact_eval.thresholds.checking import check_thresholds
from pact_eval.thresholds.choice import choose_thresholds
from pact_eval.thresholds.files import read_thresholds, write_choice
from pact_eval.thresholds.gates import SIGNALS, Target

accept: Any = accept_module.accept  # without types: callers copy it
DOCS = Path(__file__).resolve().parents[2] / "docs" / "thresholds.md"
command = runner(main, "thresholds")
SEEDS = {"first": 11, "second": 12}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("runs")
    other: dict[str, Any] = {"adapter": {"sha256": "b" * 64}}
    return {
        "january": run(home / "january", 1),
        "march": run(home / "march", 2),
        "worse": run(home / "worse", 3, skill=0.7),
        "few": run(home / "few", 4, families=20),
        "one view": run(home / "one", 5, k=1),
        "other": run(home / "other", 6, **other),
        "silent": run(home / "silent", 7, unanswered=True),
    }


@pytest.fixture(scope="module")
def file(runs: dict[str, Path]) -> Path:
    path = runs["january"].parent / "thresholds.json"
    command(runs["january"], "--target-error", 0.1, "--out", path)
    return path


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("decoding", ["single", "ensemble"])
def test_the_function_for_callers_accepts_what_the_gate_accepts(
    runs: dict[str, Path], tmp_path: Path, signal: Any, decoding: Any
) -> None:
    settings = Settings(decoding=decoding)
    target = Target.of_escalation(0.6)
    chosen = choose_thresholds(runs["january"], target, signal=signal, by="kind", settings=settings)
    write_choice(tmp_path / "t.json", chosen)
    thresholds = json.loads((tmp_path / "t.json").read_text())
    scored = Experiment.read([runs["january"]]).runs[0].scored(decoding)
    views = np.exp(scored.predictions.log_probs_by_view)
    shown = views if signal == "disagreement" else np.exp(scored.log_probs)
    kinds = scored.predictions.kind.tolist()
    taken = [
        accept(probabilities, thresholds, group=kind)
        for probabilities, kind in zip(shown.tolist(), kinds, strict=True)
    ]
    gates = [gate for gate in chosen.gates if gate.guaranteed]
    assert len(gates) == 2
    for gate in gates:
        of_kind = np.array(kinds) == gate.group
        assert np.mean(np.array(taken)[of_kind]) == pytest.approx(gate.coverage.value)
        assert 0.3 < gate.coverage.value < 0.8
    assert not accept(shown[0].tolist(), thresholds, group="boolean")


def test_the_docs_show_the_function_as_it_is_and_it_needs_nothing_else(file: Path) -> None:
    source = Path(sys.modules["pact_eval.thresholds.accept"].__file__ or "").read_text()
    shown = re.search(
        r"```python\n(from math import log\n.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL
    )
    assert shown is not None
    body = source[source.index("from math") :]
    assert re.sub(r"  # type: ignore.*", "", body).strip() == shown[1].strip()
    program = f"""{shown[1]}
import json, sys
thresholds = json.load(open({str(file)!r}))
print(accept([0.999, 0.001], thresholds), accept([0.4, 0.3, 0.3], thresholds))
assert not {{name.partition(".")[0] for name in sys.modules}} & {{"numpy", "pact_eval"}}
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


def test_a_file_is_read_as_it_was_written(file: Path, tmp_path: Path) -> None:
    file_thresholds = read_thresholds(file)
    value = json.loads(file.read_text())
    assert file_thresholds.target == Target.of_error(0.1)
    assert file_thresholds.gates["all"] == value["gates"]["all"]["sureness_at_least"]
    assert file_thresholds.model.adapter_sha256 == "a" * 64
    assert len(file_thresholds.families) == 300
    assert "95% confidence" in value["guarantee"]
    value["gates"]["all"]["sureness_at_least"] = 0.1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(value))
    with pytest.raises(TamperedError, match="changed since"):
        read_thresholds(changed)
    changed.write_text('{"format": "pact-thresholds-9"}')
    with pytest.raises(InputError, match="pact-thresholds-1"):
        read_thresholds(changed)


@pytest.mark.parametrize(
    ("name", "code", "verdict"),
    [("march", 0, "holds"), ("few", 4, "cannot tell"), ("worse", 3, "broken")],
)
def test_a_check_has_the_exit_code_of_its_exact_test(
    runs: dict[str, Path], file: Path, name: str, code: int, verdict: str
) -> None:
    result = json.loads(command("--check", file, runs[name], "--json", code=code).stdout)
    (gate,) = result["gates"]
    assert result["verdict"] == gate["verdict"] == verdict
    counts = (gate["wrong"], gate["drawn"], 0.1)
    assert gate["p_holds"] == pytest.approx(binomtest(*counts, alternative="less").pvalue)
    assert gate["p_broken"] == pytest.approx(binomtest(*counts, alternative="greater").pvalue)
    assert gate["drawn"] <= 300
    assert (gate["needed"] is not None) == (verdict == "cannot tell")


def test_other_models_are_named_and_other_decodings_refused(
    runs: dict[str, Path], file: Path, tmp_path: Path
) -> None:
    checked = check_thresholds(file, runs["other"])
    assert [difference.fact for difference in checked.differences] == ["adapter"]
    assert "another adapter" in command("--check", file, runs["other"]).stderr
    ensemble = tmp_path / "ensemble.json"
    options = ("--decoding", "ensemble", "--out", ensemble)
    command(runs["january"], "--target-error", 0.2, *options)
    refused = command("--check", ensemble, runs["one view"], code=1)
    assert "made for 2 views" in refused.stderr
    refused = command("--check", file, runs["march"], "--calibration", "none.json", code=1)
    assert "raw probabilities" in refused.stderr
    refused = command("--check", file, runs["march"], "--decoding", "ensemble", code=2)
    assert "--decoding is for choosing" in refused.stderr


def test_several_gates_share_the_confidence_if_asked(runs: dict[str, Path]) -> None:
    alone, both = (
        choose_thresholds(runs["january"], Target.of_error(0.2), by="kind", together=together)
        for together in (False, True)
    )
    assert alone.confidence_of_each == 0.95
    assert alone.confidence_of_all == pytest.approx(0.9)
    assert both.confidence_of_each == pytest.approx(0.975)
    assert both.confidence_of_all == pytest.approx(0.95)
    for one, other in zip(alone.gates, both.gates, strict=True):
        assert one.coverage.value >= other.coverage.value


def test_unanswered_items_are_escalated(runs: dict[str, Path]) -> None:
    chosen = choose_thresholds(runs["silent"], Target.of_error(0.2))
    (gate,) = chosen.gates
    assert (gate.items, gate.unanswered) == (600, 60)
    assert 0 < gate.coverage.value <= 0.9
    output = command(runs["silent"], "--target-error", 0.2).stdout
    assert_says(output, "unanswered", "60 items", "a person")


def test_out_of_sample_error_is_next_to_the_optimistic_one(runs: dict[str, Path]) -> None:
    (gate,) = choose_thresholds(runs["january"], Target.of_error(0.1)).gates
    run_ = Experiment.read([runs["january"]]).runs[0].scored()
    assert gate.chosen.threshold is not None
    accepted = run_.confidence >= gate.chosen.threshold
    assert gate.same_items_error.value == pytest.approx(1 - run_.correct[accepted].mean())
    assert gate.realised_error.n == pytest.approx(600 * gate.realised_coverage.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give one of"),
        (("--target-error", 0.1, "--target-escalation", 0.9), "give one of"),
        (("--target-error", 1.5), "above 0 and below 1"),
    ],
)
def test_wrong_targets_are_refused(
    runs: dict[str, Path], options: tuple[object, ...], message: str
) -> None:
    assert message in command(runs["january"], *options, code=2).stderr


def test_gates_on_calibrated_probabilities_need_their_calibrator(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    runner(main, "calibrate")(
        runs["march"], "--force", "--mode", "scalar", "--out", tmp_path / "c.json"
    )
    calibrated = ("--calibration", tmp_path / "c.json")
    options = ("--target-error", 0.1, "--out", tmp_path / "t.json", *calibrated)
    command(runs["january"], *options)
    chosen = read_thresholds(tmp_path / "t.json")
    assert chosen.rule.calibration == "calibrated"
    output = command("--check", tmp_path / "t.json", runs["few"], *calibrated, "--json", code=4)
    assert json.loads(output.stdout)["verdict"] == "cannot tell"
    refused = command("--check", tmp_path / "t.json", runs["few"], code=1)
    assert "calibration.json" in refused.stderr
    runner(main, "calibrate")(
        runs["worse"], "--force", "--mode", "scalar", "--out", tmp_path / "d.json"
    )
    other = ("--calibration", tmp_path / "d.json")
    refused = command("--check", tmp_path / "t.json", runs["few"], *other, code=1)
    assert "another calibrator" in refused.stderr
    # On the families of its own fit, a calibrator is refused.
    refused = command(runs["march"], "--target-error", 0.1, *calibrated, code=1)
    assert "flatter" in refused.stderr


def test_the_entropy_of_several_views_is_that_of_the_canonical_one() -> None:
    """The entropy of (0.9, 0.1) is 0.325 nats, and that of (0.5, 0.5) is 0.693."""
    thresholds = {"rule": {"signal": "entropy"}, "gates": {"all": {"sureness_at_least": -0.4}}}
    assert accept([[0.9, 0.1], [0.5, 0.5]], thresholds)
    assert not accept([[0.5, 0.5], [0.9, 0.1]], thresholds)


def test_a_check_looks_at_as_many_views_as_the_choice(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "t.json"
    settings = Settings(decoding="ensemble")
    chosen = choose_thresholds(runs["january"], Target.of_error(0.1), settings=settings)
    write_choice(path, chosen)
    for folder in (runs["march"], run(tmp_path / "three", 8, k=3)):
        scored = Experiment.read([folder]).runs[0].with_views(2).scored("ensemble")
        threshold = chosen.gates[0].chosen.threshold
        assert threshold is not None
        (gate,) = check_thresholds(path, folder).gates
        assert gate.coverage.value == pytest.approx(np.mean(scored.confidence >= threshold))


def test_gates_of_shipped_temperatures_are_checked_with_them(tmp_path: Path) -> None:
    """The share that passes on another run is that of the logits divided by 3."""
    contract = {"name": "decision-template", "temperatures": dict.fromkeys(KINDS, 3.0)}
    first, second = (run(tmp_path / name, seed, contract=contract) for name, seed in SEEDS.items())
    settings = Settings(calibrated=True, shipped=True)
    chosen = choose_thresholds(first, Target.of_escalation(0.5), settings=settings)
    write_choice(tmp_path / "t.json", chosen)
    (gate,) = check_thresholds(tmp_path / "t.json", second).gates
    views = Experiment.read([second]).runs[0].predictions
    surest = np.exp(log_softmax(views.logits[:, 0] / 3, views.n_choices)).max(axis=1)
    assert gate.threshold is not None
    assert gate.coverage.value == pytest.approx((surest >= gate.threshold).mean())
    assert 0.2 < gate.coverage.value < 0.8
