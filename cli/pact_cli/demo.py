"""`pact-eval demo`: a made-up example, or the bundled adapters, wherever pact-eval is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from pact_cli.commands import command, given
from pact_cli.compare import print_comparison
from pact_cli.console import FIRST_SCREEN, tell
from pact_cli.errors import needs_model_extra
from pact_cli.param_types import Count
from pact_cli.report import open_in_browser, print_reports
from pact_cli.score import says_what_is_kept
from pact_eval._files import write_atomically
from pact_eval.errors import InputError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.importing.import_run import import_run
from pact_eval.runs.provenance import RunLabels
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.windows import read_dataset
from pact_eval.thresholds.choice import choose_thresholds
from pact_eval.thresholds.conclusion import acting
from pact_eval.thresholds.gates import Target
from pact_reports.files import write_report
from pact_reports.results import Outputs

_TABLES: Final = ("tickets-new.csv", "tickets-old.csv")
_ARMS: Final = ("nimble_recipe", "pact")
_SEED: Final = 17
_TARGET_ERROR: Final = 0.1
_ABOUT: Final = (
    "A made-up example: two versions of a model read 360 messages to a shop and say what to do:",
    "decline, refund, replace or trace. Each message was shown in four orders of these answers.",
)

_PLANTED: Final = (
    "What was planted in the new version: it prefers the letter A, it is too sure, and it pays out",
    "gift cards. It is better elsewhere, so accuracy alone shows none of this.",
)


@command(tells_steps=True, for_json=False)
def demo(
    *,
    out: Path = Path("runs"),
    score_: bool = False,
    k: Count = 4,
    limit: Count | None = None,
    open_: bool = False,
) -> None:
    """Show what pact-eval finds, in seconds and without a model.

    Two tables of a made-up example are written into this folder, tickets-old.csv and
    tickets-new.csv. They become runs, a report, a comparison and one page.

    --score needs the extra `model`. It scores two small adapters on 324 records instead, which
    takes one to two minutes on two cores; the same command resumes it.

    Data:
        --limit: As --score, but only the first N records.

    Views:
        --score: Score the bundled adapters instead of reading the tables.
        --k: As --score, with so many orders of the answers.

    Output:
        --out: Folder for the runs, and for demo.html.
        --open: Open the page in the browser when it is written.
    """
    page = out / "demo.html"
    if score_ or given(["k", "limit"]):
        _score_adapters(out, page, k=k, limit=limit)
    else:
        _report_tables(out, page)
    if open_:
        open_in_browser(page)


def _report_tables(out: Path, page: Path) -> None:
    """Report on the tables of the example: the terminal has the newer version, the page both."""
    tables = _write_tables()
    runs = [out / table.stem for table in tables]
    for table, run in zip(tables, runs, strict=True):
        import_run(table, run, RunLabels())
    tell([*_ABOUT, ""])
    print_reports(runs[:1])
    experiment = Experiment.read(runs)
    tell([""])
    print_comparison(experiment, FIRST_SCREEN)
    _write_page(experiment, page)
    tell(
        [
            *("", *_PLANTED, ""),
            f"Wrote {', '.join(map(str, (*tables, *runs)))} and the page {page}.",
            f"Next: pact-eval report {tables[0]}, and then a table of your own.",
        ]
    )


def _write_tables() -> list[Path]:
    """Copy the tables into the working folder, unless they are there already.

    Raises:
        InputError: another file has the name of one.
    """
    # By name: no command imports the package of the fixtures, which is above this one.
    bundled = resources.files("pact_fixtures") / "tickets"
    contents = {Path(name): (bundled / name).read_bytes() for name in _TABLES}
    for path, content in contents.items():
        if path.exists() and (not path.is_file() or path.read_bytes() != content):
            raise InputError(
                f"{path} is not the demo's: rename it, or start the demo in another folder"
            )
    for path, content in contents.items():
        if not path.exists():
            write_atomically(path, content)
    return [*contents]


def _score_adapters(out: Path, page: Path, *, k: int, limit: int | None) -> None:
    """Score the bundled adapters, and report on both."""
    with needs_model_extra():
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.score import score

    with resources.as_file(resources.files("pact_fixtures")) as fixtures:
        data = fixtures / "data" / "holdout.jsonl"
        runs = [out / f"demo-{arm}" for arm in _ARMS]
        for arm, run in zip(_ARMS, runs, strict=True):
            model = identify(ModelRequest(adapter=fixtures / "adapters" / arm))
            dataset = read_dataset(data, k=k, limit=limit)
            with says_what_is_kept(run):
                score(model, dataset, run, labels={"arm": arm, "seed": _SEED})
        print_reports(runs)
        settings = Settings(method=_ARMS[-1], target_error=_TARGET_ERROR)
        _write_page(Experiment.read(runs, settings), page, [data])
    thresholds = choose_thresholds(runs[-1], Target.of_error(_TARGET_ERROR))
    tell(
        [
            f"wrote {', '.join(map(str, runs))} and {page}",
            f"next: pact-eval compare {' '.join(map(str, reversed(runs)))}",
            f"{runs[-1].name}: {acting(thresholds).words}",
        ]
    )


def _write_page(experiment: Experiment, page: Path, data: Sequence[Path] = ()) -> None:
    outputs = Outputs(html=page, data=tuple(data), command=("pact-eval", "demo"))
    write_report(experiment, outputs)
