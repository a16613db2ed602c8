"""`pact-eval demo`: score and report the bundled adapters, wherever pact-eval is installed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Final

from pact_cli.commands import command
from pact_cli.console import tell
from pact_cli.errors import needs_model_extra
from pact_cli.param_types import Count
from pact_cli.report import open_in_browser, print_reports
from pact_cli.score import says_what_is_kept
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.windows import read_dataset
from pact_eval.thresholds.choice import choose_thresholds
from pact_eval.thresholds.conclusion import acting
from pact_eval.thresholds.gates import Target
from pact_reports.files import write_report
from pact_reports.outputs import Outputs

_ARMS: Final = ("nimble_recipe", "pact")
_SEED: Final = 17
_TARGET_ERROR: Final = 0.1


@command(tells_steps=True)
def demo(
    *, out: Path = Path("runs"), k: Count = 4, limit: Count | None = None, open_: bool = False
) -> None:
    """Score two bundled adapters and put them on one page.

    The model, the adapters and 324 records are part of the package `pact_fixtures`. This takes
    one to two minutes on two cores. The same command resumes an interrupted demo.

    Data:
        --limit: Score only the first N records.

    Views:
        --k: Views per record.

    Output:
        --out: Folder for the runs `demo-nimble_recipe` and `demo-pact`, and for demo.html.
        --open: Open the page in the browser when it is written.
    """
    with needs_model_extra():
        from pact_eval.scoring.model import identify
        from pact_eval.scoring.score import score

    # By name: no command imports the package of the fixtures, which is above this one.
    with resources.as_file(resources.files("pact_fixtures")) as fixtures:
        data = fixtures / "data" / "holdout.jsonl"
        runs = [out / f"demo-{arm}" for arm in _ARMS]
        for arm, run in zip(_ARMS, runs, strict=True):
            model = identify(ModelRequest(adapter=fixtures / "adapters" / arm))
            dataset = read_dataset(data, k=k, limit=limit)
            with says_what_is_kept(run):
                score(model, dataset, run, labels={"arm": arm, "seed": _SEED})
        print_reports(runs, as_json=False)
        page = out / "demo.html"
        experiment = Experiment.read(runs, Settings(method="pact", target_error=_TARGET_ERROR))
        outputs = Outputs(html=page, data=(data,), command=("pact-eval", "demo"))
        write_report(experiment, outputs)
    thresholds = choose_thresholds(runs[-1], Target.of_error(_TARGET_ERROR))
    tell(
        [
            f"wrote {', '.join(map(str, runs))} and {page}",
            f"next: pact-eval compare {' '.join(map(str, reversed(runs)))}",
            f"{runs[-1].name}: {acting(thresholds).words}",
        ]
    )
    if open_:
        open_in_browser(page)
