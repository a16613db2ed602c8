"""`pact-eval verify`. Source of truth: the files that the run names, changed one by one."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import question, record, write_jsonl
from click.testing import CliRunner, Result
from commands import runner, with_settings
from messages import assert_says
from run_frames import edit_rows, edit_run, rows, without_seal, write_content_free, write_run

from pact_cli.main import main
from pact_eval._files import sha256_of_file
from pact_eval._json import Json
from pact_eval.calibration.temperatures import Calibrator, Weights, write_calibrator
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.report import report_digest
from pact_eval.evaluation.settings import Settings
from pact_eval.models import sha256_of_weights
from pact_eval.preregistration.registration import register
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.runs.folder import CONTENTS, open_run
from pact_eval.runs.seal import seal_digest
from pact_eval.scoring.contracts import load_tokenizer
from pact_eval.verification import Places, verify_run
from pact_fixtures.paper import HYPOTHESES
from pact_reports.page.assembly import make_page, write_page
from pact_reports.request import Request

FIXTURES = Path(__file__).parents[2] / "fixtures" / "pact_fixtures"


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that names an adapter, a base and a dataset that are there, and their real hashes."""
    home = tmp_path_factory.mktemp("scored")
    adapter, base = home / "adapter", home / "base"
    shutil.copytree(FIXTURES / "adapters" / "pact", adapter)
    shutil.copytree(FIXTURES / "model", base)
    data = home / "holdout.jsonl"
    data.write_text("{}\n")
    frame = rows(1, families=6, k=2)
    run = write_run(home / "run", frame, arm="pact", seed=17)
    record = {"sha256": sha256_of_file(adapter / "training_data.json"), "roles": {}}
    return edit_run(
        run,
        custody={"training": record},
        source="score",
        created="2026-03-02T10:00:00+00:00",
        adapter=str(adapter),
        base_model=str(base),
        data=str(data),
        counts={"items": 12, "views": 24},
        settings={
            "k": 2,
            "adapter": {
                "sha256": sha256_of_file(adapter / "adapter_model.safetensors"),
                "config_sha256": sha256_of_file(adapter / "adapter_config.json"),
            },
            "base": {
                "sha256": sha256_of_weights(base),
                "config_sha256": sha256_of_file(base / "config.json"),
            },
            "data": {"sha256": sha256_of_file(data), "records": 12},
            "contract": {"name": NIMBLE.name, "fingerprint": NIMBLE.fingerprint},
            "prompts_sha256": Encoder(load_tokenizer(base), NIMBLE).fingerprint,
        },
    )


@pytest.fixture
def run(scored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(scored, tmp_path / "run"))


def outcomes(folder: Path, places: Places | None = None) -> dict[str, str]:
    return {check.subject: check.outcome for check in verify_run(folder, places).checks}


def verify(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["verify", *map(str, arguments)])


def test_a_run_with_everything_in_place(run: Path) -> None:
    expected = ("seal", "rows", "adapter", "training", "base", "data", "contract", "tokenizer")
    assert outcomes(run) == dict.fromkeys(expected, "ok")
    result = verify(run, "--strict")
    assert result.exit_code == 0, result.output
    seal = open_run(run).provenance.seal
    assert seal is not None
    assert seal_digest(seal) in result.stdout


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("adapter", "adapter/adapter_model.safetensors"),
        ("adapter", "adapter/adapter_config.json"),
        ("base", "base/config.json"),
        ("data", "holdout.jsonl"),
        ("tokenizer", "base/chat_template.jinja"),
    ],
)
def test_each_file_that_changes_is_named(
    run: Path, scored: Path, tmp_path: Path, subject: str, name: str
) -> None:
    home = Path(shutil.copytree(scored.parent, tmp_path / "home"))
    path = home / name
    path.write_bytes(path.read_bytes().replace(b"assistant", b"model") + b"\n")
    places = Places(home / "adapter", home / "base", home / "holdout.jsonl")
    outcome_of = outcomes(run, places)
    assert {
        subject_of_check for subject_of_check, outcome in outcome_of.items() if outcome == "differs"
    } == {subject}
    options = ("--adapter", places.adapter, "--base-model", places.base, "--data", places.data)
    result = verify(run, *options)
    assert result.exit_code == 5
    assert "differs" in result.stdout


def test_files_that_are_not_there_are_not_checked(run: Path, tmp_path: Path) -> None:
    places = Places(tmp_path / "x", tmp_path / "x", tmp_path / "x")
    outcome_of = outcomes(run, places)
    missing = {
        subject_of_check
        for subject_of_check, outcome in outcome_of.items()
        if outcome == "not checked"
    }
    assert missing == {"adapter", "training", "base", "data", "tokenizer"}
    options = ("--adapter", "x", "--base-model", "x", "--data", "x")
    assert verify(run, *options).exit_code == 0
    assert verify(run, *options, "--strict").exit_code == 4


def test_a_changed_run_has_no_digest_and_the_other_checks_are_made(run: Path) -> None:
    path = run / "predictions.parquet"
    pl.read_parquet(path).head(12).write_parquet(path)
    checked = verify_run(run)
    assert checked.digest is None
    check_of = {check.subject: check for check in checked.checks}
    assert check_of["seal"].outcome == check_of["rows"].outcome == "differs"
    assert_says(check_of["rows"].finding, "not read", "SHA-256 differs")
    assert check_of["adapter"].outcome == "ok"


def test_rows_that_were_sealed_anew_contradict_run_json(run: Path) -> None:
    edit_run(run, settings={"k": 4})
    assert outcomes(run)["rows"] == "differs"
    edit_run(run, settings={"k": 2}, counts={"items": 13, "views": 24})
    assert outcomes(run)["rows"] == "differs"


def test_rows_with_impossible_values(run: Path) -> None:
    edit_rows(run, pl.lit(7.5, dtype=pl.Float32).alias("answer_mass"))
    assert outcomes(run)["rows"] == "differs"


def test_a_run_without_its_seal(run: Path) -> None:
    without_seal(run)
    checked = verify_run(run)
    assert checked.digest is None
    assert checked.checks[0].outcome == "differs"


def test_content_free_prompts_are_a_sealed_run_of_the_same_items(run: Path) -> None:
    frame = pl.read_parquet(run / "predictions.parquet")
    recorded = json.loads((run / "run.json").read_text())["settings"]

    def written(rows_of: pl.DataFrame = frame) -> Path:
        shutil.rmtree(run / "content-free", ignore_errors=True)
        write_content_free(run, rows_of)
        data = recorded["data"] | {"records": 36}
        settings = recorded | {"data": data, "k": 2, "content_free": [*CONTENTS]}
        return edit_run(run / "content-free", settings=settings)

    def findings() -> dict[str, str]:
        return {check.subject: check.finding for check in verify_run(run).checks}

    folder = written()
    assert outcomes(run)["content-free"] == "ok", findings()["content-free"]
    assert verify(run, "--strict").exit_code == 0
    path = folder / "predictions.parquet"
    pl.read_parquet(path).head(12).write_parquet(path)
    assert outcomes(run)["content-free"] == "differs"
    result = verify(run)
    assert result.exit_code == 5
    assert_says(result.output, "differs", "content-free", "predictions.parquet")
    edit_run(written(), settings={"dtype": "another"})
    assert outcomes(run)["content-free"] == "differs"
    written(frame.with_columns(id=pl.format("other-{}", pl.col("id"))))
    assert_says(findings()["content-free"], "other items", "other-")
    (written() / "run.json").write_text("{")
    assert outcomes(run)["content-free"] == "differs"
    path = written() / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "running"}))
    assert outcomes(run)["content-free"] == "not checked"
    assert verify_run(run).digest is not None  # that of the run, whatever is in the folder


def test_the_calibrator_of_another_adapter(run: Path) -> None:
    own = json.loads((run / "run.json").read_text())["settings"]["adapter"]["sha256"]
    fit: dict[str, Json] = {"families": ["elsewhere"], "source_families": ["elsewhere"]}
    for adapter, outcome in ((own, "ok"), ("0" * 64, "differs")):
        calibrator = Calibrator(
            "scalar",
            Weights((1.0, 1.0, 1.0), 0.0, 0.0),
            {**fit, "run": {"adapter_sha256": adapter}},
        )
        write_calibrator(run / "calibration.json", calibrator)
        assert outcomes(run)["calibrator"] == outcome


def test_a_registration_before_and_after_the_run(run: Path, scored: Path, tmp_path: Path) -> None:
    for day, outcome in ((1, "ok"), (3, "differs")):
        criteria = Path(shutil.copy(HYPOTHESES, tmp_path / f"h{day}.toml"))
        assert outcomes(run, Places(criteria=criteria))["registration"] == "not checked"
        at = dt.datetime(2026, 3, day, tzinfo=dt.UTC)
        register(criteria, data=[scored.parent / "holdout.jsonl"], now=at)
        assert outcomes(run, Places(criteria=criteria))["registration"] == outcome


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    result = verify(tmp_path)
    assert result.exit_code == 1
    assert "not a run folder" in result.stderr


def test_every_folder_is_checked_also_after_one_that_is_no_run(run: Path, tmp_path: Path) -> None:
    # The first folder that was no run ended the command: a changed run behind it went unseen.
    (tmp_path / "notes").mkdir()
    damaged = Path(shutil.copytree(run, tmp_path / "damaged"))
    (damaged / "run.json").write_text("{")
    result = verify(tmp_path / "notes", damaged, run)
    assert result.exit_code == 1
    assert "not a run folder" in result.stderr
    assert f"{damaged / 'run.json'}: " in result.stderr
    assert result.stdout.count("not readable") == 2
    assert "12 items, 24 rows" in result.stdout
    path = run / "predictions.parquet"
    pl.read_parquet(path).head(12).write_parquet(path)
    result = verify(tmp_path / "notes", run, "--json")
    assert result.exit_code == 5
    notes, changed = json.loads(result.stdout)["runs"]
    assert "not a run folder" in notes["unreadable"]
    assert changed["checks"][0]["outcome"] == "differs"


@pytest.fixture(scope="module")
def home_of_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs and their page."""
    home = tmp_path_factory.mktemp("reported")
    runs = [
        write_run(home / name, rows(seed, families=9, k=2), arm=name, seed=1)
        for seed, name in enumerate("ab")
    ]
    page = home / "page.html"
    experiment = Experiment.read(runs, Settings(resamples=100))
    write_page(make_page(Request(experiment, figures=("pairs",))), page)
    return home


@pytest.fixture
def reported(home_of_page: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    home = Path(shutil.copytree(home_of_page, tmp_path / "reported"))
    return home / "page.html", home / "a", home / "b"


@pytest.mark.slow
def test_a_page_is_the_report_on_its_runs_in_any_order(reported: tuple[Path, Path, Path]) -> None:
    page, a, b = reported
    experiment = Experiment.read([a, b], Settings(resamples=100))
    digest = report_digest(experiment.all_runs, experiment.settings)
    assert digest is not None
    for folders in ((a, b), (b, a)):
        result = verify(page, *folders)
        assert result.exit_code == 0, result.output
        assert digest.sha256 in result.stdout
    other = report_digest(experiment.all_runs, Settings(resamples=100, seed=1))
    assert other is not None
    assert other.sha256 != digest.sha256


@pytest.mark.slow
def test_a_page_of_other_runs_or_settings_is_refused(reported: tuple[Path, Path, Path]) -> None:
    page, a, b = reported
    result = verify(page, a)
    assert result.exit_code == 5
    assert_says(result.stdout, "b: the report", "from run")
    edit_run(b, note="changed")
    assert "not in the report" in " ".join(verify(page, a, b).stdout.split())
    text = page.read_text()
    assert '"seed":0' in text
    page.write_text(text.replace('"seed":0', '"seed":1'))
    assert_says(verify(page, a, b).stdout, "not that of the runs", "and settings")


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_options_of_runs_check_the_runs_of_a_report_too(tmp_path: Path) -> None:
    run, page = write_run(tmp_path / "a", rows(1)), tmp_path / "page.html"
    runner(main, "report")(run, "--html", page)
    alone, runs = verify(page, run).stdout, verify(run).stdout
    both = verify(page, run, "--strict")
    assert both.stdout == alone + runs
    assert both.exit_code == verify(run, "--strict").exit_code


@pytest.mark.slow
@pytest.mark.usefixtures("one_figure")
def test_the_digest_covers_every_file_that_decides_what_a_page_shows(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(1, families=9, k=2), arm="method", seed=1)
    pairs = pl.read_parquet(run / "predictions.parquet").filter(pl.col("view") == 0)
    records = {
        text: [_record(row, text) for row in pairs.iter_rows(named=True)] for text in ("one", "two")
    }
    example = Path(__file__).parents[2] / "pact_eval" / "preregistration" / "example.toml"
    first, second = tmp_path / "first", tmp_path / "second"
    for home, text, change in ((first, "one", "2 points"), (second, "two", "3 points")):
        home.mkdir()
        write_jsonl(home / "holdout.jsonl", records[text])
        (home / "clear.toml").write_text(f'accuracy = "{change}"\n')
        (home / "h.toml").write_text(example.read_text() + f"# {text}\n")
    options = {"data": "holdout.jsonl", "clear_changes": "clear.toml", "criteria": "h.toml"}
    words = ("report", str(run), "--html", str(tmp_path / "page.html"), "--resamples", "100")

    def digest(**homes: Path) -> dict[str, Json]:
        page = tmp_path / "page.html"
        paths = {name: str(homes.get(name, first) / file) for name, file in options.items()}
        data = paths.pop("data")  # that of the settings need not be of the run
        env = with_settings(tmp_path, "report", **paths)
        result = CliRunner(env=env).invoke(main, [*words, "--data", data])
        assert result.exit_code == 0, result.output
        assert verify(page, run).exit_code == 0
        held: dict[str, Json] = json.loads(page.read_text().split(PAGE)[1].split("</script>")[0])
        return held

    before = digest()
    assert before == digest()
    others = [digest(**{option: second}) for option in options]
    assert before["format"] == "pact-digest-2"
    assert len({str(page_digest["sha256"]) for page_digest in (before, *others)}) == 4
    register(first / "h.toml", now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert digest()["sha256"] != before["sha256"]


PAGE = '<script type="application/json" id="page-digest">'


def _record(row: dict[str, Any], text: str) -> dict[str, Any]:
    """Returns the record of a row of a run, with this text as its context."""
    place, n = row["reference"], row["n_choices"]
    target = {"choice": f"answer_{place}", "boolean": place == 1, "score": place}[row["kind"]]
    names = ("family", "source_family", "domain", "variant")
    return record(
        row["id"],
        **{name: row[name] for name in names},
        state=text,
        decision=question(row["kind"], n),
        reference={"target": target},
    )


def test_accepted_differences_are_in_the_digest(run: Path) -> None:
    experiment = Experiment.read([run], Settings(resamples=100))
    plain, allowed, again = (
        report_digest(experiment.all_runs, Settings(resamples=100, allow=allow)).sha256
        for allow in ((), ("other-data", "other-base"), ("other-base", "other-data"))
    )
    assert plain != allowed == again


@pytest.mark.slow
def test_another_calibrator_than_that_of_the_page(reported: tuple[Path, Path, Path]) -> None:
    page, a, b = reported
    weights = Weights((1.0, 1.0, 1.0), 0.0, 0.0)
    write_calibrator(a / "calibration.json", Calibrator("scalar", weights, None))
    result = verify(page, a, b)
    assert result.exit_code == 5
    assert_says(result.stdout, "not the calibrator", "of the report")


def test_the_calibrator_in_the_folder_of_its_own_fit(tmp_path: Path) -> None:
    # README's own sequence gave exit code 5: "fitted on 12 of the 12 families it is applied to".
    folder = write_run(tmp_path / "run", rows(1, families=12, k=3), arm="a", seed=1)
    fitted = CliRunner().invoke(main, ["calibrate", str(folder), "--force", "--mode", "scalar"])
    assert fitted.exit_code == 0, fitted.output
    assert outcomes(folder)["calibrator"] == "ok"
    page = tmp_path / "page.html"
    shown = CliRunner().invoke(main, ["report", str(folder), "--html", str(page)])
    assert shown.exit_code == 0, shown.output
    assert_says(shown.stderr, "fitted on this run", "--holdout")
    refused = CliRunner().invoke(main, ["report", str(folder), "--calibration", "own"])
    assert (refused.exit_code, "fitted on this run" in refused.stderr) == (1, True)


@pytest.mark.slow
def test_json_of_one_run_has_a_digest_and_that_of_a_comparison_has_none(
    reported: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    _, a, b = reported
    path = tmp_path / "report.json"
    for folders, code in (((a,), 0), ((a, b), 1)):
        arguments = ["report", *map(str, folders), "--json", "--resamples", "100"]
        path.write_text(CliRunner().invoke(main, arguments).stdout)
        assert verify(path, *folders).exit_code == code
    assert_says(verify(path, a, b).stderr, "no SHA-256", "comparison")
