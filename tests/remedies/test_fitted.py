"""Fitted remedies: written on one run, applied to other families, refused on its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner, Result
from messages import assert_says
from run_frames import rows, write_run

from pact_cli.main import main
from pact_eval._json import sha256_of_json
from pact_eval.errors import GateError, InputError, TamperedError
from pact_eval.remedies.decodings import Remedy, fit_temperature, remedied, temperature_of
from pact_eval.remedies.fitting import check_fitted, fit_remedy, read_remedy
from pact_eval.remedies.priors import fit_letter_prior
from pact_eval.runs.folder import Run, read_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Returns a run to fit on, and one of other families."""
    folder = tmp_path_factory.mktemp("fitted")
    write_run(folder / "fit", rows(1, families=60, k=4))
    others = rows(2, families=60, k=4).with_columns(
        pl.concat_str(pl.lit("other-"), name).alias(name)
        for name in ("id", "family", "source_family")
    )
    write_run(folder / "other", others)
    return folder / "fit", folder / "other"


@pytest.fixture(scope="module")
def remedy_file(runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "remedy.json"
    return fit_remedy(runs[0], "k1_additive").write(path)


def _applied(file: Path, run: Run) -> tuple[object, ...]:
    return check_fitted(read_remedy(file), run.provenance, run.predictions, where=str(file))


def test_the_file_gives_back_what_was_fitted(runs: tuple[Path, Path], remedy_file: Path) -> None:
    fitted, read = fit_remedy(runs[0], "k1_additive"), read_remedy(remedy_file)
    assert read.remedy == fitted.remedy == Remedy(1, prior="additive")
    assert fitted.prior is not None
    assert read.prior is not None
    for count, log_prior in fitted.prior.log_prior.items():
        assert np.array_equal(read.prior.log_prior[count], log_prior)
    assert (read.prior.items, read.prior.views) == (fitted.prior.items, fitted.prior.views)
    assert fitted.calibrator is not None
    assert read.calibrator is not None
    assert temperature_of(read.calibrator) == pytest.approx(temperature_of(fitted.calibrator))
    assert read.fit == fitted.fit
    assert read.members.families == set(read_run(runs[0]).predictions.family.tolist())


def test_applied_to_other_families_it_removes_the_prior_of_the_fit(
    runs: tuple[Path, Path], remedy_file: Path
) -> None:
    fit, other = (read_run(run).predictions for run in runs)
    remedy = Remedy(1, prior="additive")
    prior = fit_letter_prior(fit, "additive")
    applied = read_remedy(remedy_file).applied_to(other)
    expected = remedied(other, remedy, prior)
    assert np.array_equal(applied.predictions.logits, expected.logits)
    calibrator = fit_temperature(remedied(fit, remedy, prior))
    assert calibrator is not None
    assert applied.tempered is not None
    divided = expected.logits / temperature_of(calibrator)
    divided -= np.logaddexp.reduce(divided, axis=2, keepdims=True)
    used = np.isfinite(expected.logits)
    assert applied.tempered.logits[used] == pytest.approx(divided[used], abs=1e-9)


def test_the_families_of_the_fit_are_refused_with_exit_3(
    runs: tuple[Path, Path], remedy_file: Path
) -> None:
    with pytest.raises(GateError) as error:
        _applied(remedy_file, read_run(runs[0]))
    assert_says(error.value, str(remedy_file), "60 families", "separate families")
    refused = _command("sweep", runs[0], "--fitted", remedy_file)
    assert refused.exit_code == 3
    assert _applied(remedy_file, read_run(runs[1])) is not None


def test_one_shared_family_is_enough_to_refuse(
    runs: tuple[Path, Path], remedy_file: Path, tmp_path: Path
) -> None:
    mixed = pl.concat(
        [rows(1, families=60, k=4).head(8), pl.read_parquet(runs[1] / "predictions.parquet")],
        how="vertical_relaxed",
    )
    write_run(tmp_path / "mixed", mixed)
    with pytest.raises(GateError) as error:
        _applied(remedy_file, read_run(tmp_path / "mixed"))
    assert_says(error.value, "1 family")


def test_sweep_writes_it_and_lists_what_can_be_fitted(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(runs[0], tmp_path / "fit")
    path = folder / "remedy.json"
    words = ("sweep", folder, "--fit", "k2_additive")
    written = _command(*words)
    assert written.exit_code == 0
    assert_says(written.stdout, "Letter prior", "Temperature")
    assert read_remedy(path).remedy == Remedy(2, prior="additive")
    before = path.read_bytes()
    assert _command(*words).exit_code == 0
    assert path.read_bytes() == before
    other = _command("sweep", folder, "--fit", "k1_batch")
    assert other.exit_code == 1
    assert_says(other.stderr, str(path), "Move it")
    assert path.read_bytes() == before
    wrong = _command("sweep", folder, "--fit", "k9")
    assert wrong.exit_code == 1
    assert_says(wrong.stderr, "--fit", "k9", "k1_additive", "k2_additive")
    near = _command("sweep", folder, "--fit", "k1_aditive")
    assert near.exit_code == 1
    assert_says(near.stderr, "--fit", "k1_aditive", "did you mean k1_additive?")


def test_a_run_of_one_view_fits_no_additive_prior(tmp_path: Path) -> None:
    write_run(tmp_path / "one", rows(1, families=30, k=1))
    with pytest.raises(InputError) as error:
        fit_remedy(tmp_path / "one", "k1_additive")
    assert_says(error.value, "K = 1", "k1_batch")


def test_a_changed_file_is_tampered(remedy_file: Path, tmp_path: Path) -> None:
    content = json.loads(remedy_file.read_text())
    content["letter_prior"]["log_prior"]["2"][0] += 0.1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(content))
    with pytest.raises(TamperedError) as error:
        read_remedy(changed)
    assert_says(error.value, str(changed), "changed")


@pytest.mark.parametrize(
    ("place", "value", "parts"),
    [
        (("remedy",), "k2_pride", ("remedy", "name of a remedy", "k2_pride")),
        (("remedy",), "k1_batch", ("letter_prior", "k1_batch")),
        (("letter_prior", "method"), "other", ("letter_prior", "method")),
        (("letter_prior", "log_prior", "2"), [0.0], ("log_prior", "2 finite numbers")),
        (("letter_prior", "log_prior", "two"), [0.0], ("log_prior: key 'two'", "an integer")),
        (("letter_prior", "log_prior", "1"), [0.0], ("log_prior", "2 finite numbers")),
        (("letter_prior", "log_prior", "7"), [0.0] * 7, ("items", "each number of answers")),
        (("letter_prior", "log_prior"), {}, ("letter_prior", "each number of answers")),
        (("letter_prior", "items", "2"), 0, ("items", "whole number")),
        (("temperature",), -1.0, ("temperature", "above 0")),
        (("fit",), [], ("fit", "an object")),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(
    place: tuple[str, ...], value: object, parts: tuple[str, ...], remedy_file: Path, tmp_path: Path
) -> None:
    content = json.loads(remedy_file.read_text())
    inner = content
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    content["sha256"] = sha256_of_json({key: content[key] for key in content if key != "sha256"})
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        read_remedy(path)
    assert_says(error.value, str(path), *parts)


def _command(*words: object) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])
