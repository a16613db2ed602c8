"""Lists of runs, and the card of one."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from pact_eval._choices import Decoding
from pact_eval._json import Json
from pact_eval.evaluation.arm_names import KEYS, ArmNames
from pact_eval.evaluation.calibration_error import CalibrationError
from pact_eval.evaluation.conclusions.conclusion import Conclusion
from pact_eval.evaluation.conclusions.data import DataConclusion
from pact_eval.evaluation.conclusions.order import OrderConclusion
from pact_eval.evaluation.notes import LowAnswerMass, gap_words
from pact_eval.evaluation.run_list import ListedRun, RunState
from pact_eval.evaluation.settings import Settings
from pact_eval.numbers import (
    UNDEFINED,
    ends_text,
    has_width,
    plain_decoding,
    plain_reason,
    sample_text,
    small_text,
    value_text,
)
from pact_eval.plain_text import one_line, short_names
from pact_eval.runs.folder import Run
from pact_eval.runs.places import shown
from pact_eval.runs.provenance import EVALUATION
from pact_eval.runs.seal import seal_digest
from pact_reports.table import Cell, Column, Line, Mark, Part, Table, Tone, make_table
from pact_reports.tables.cells import estimate_cell
from pact_reports.views.presenter import Presenter, tone_of
from pact_reports.views.report import run_facts
from pact_reports.writers.json import conclusion_json, estimate_json, members


def present_run_list(
    runs: Sequence[ListedRun],
    names: ArmNames = KEYS,
    places: Sequence[Path] = (),
    settings: Settings | None = None,
    *,
    reason: str = "",
) -> Presenter:
    """Present a list of runs.

    Args:
        runs: the runs.
        names: display names of arms: `arm_name`, next to the key `arm`.
        places: the folders, for the remark that they hold no runs.
        settings: of their numbers; None stands for the defaults.
        reason: why the runs are not compared; "" if that was not asked.
    """
    where = ", ".join(map(str, places))
    nothing = Line(
        f"No runs in {where}: give `pact-eval report` a file, or `score` an adapter.",
        unbroken=True,
    )
    last = [Line(one_line(f"Not compared: {reason}"), "caution")] if reason else _compare_line(runs)
    return Presenter(
        tables=lambda: (*run_list_parts(runs, names, settings), *last) if runs else (),
        remarks=lambda: () if runs else (nothing,),
        to_json=lambda: {
            "runs": [_json(run, names) for run in runs],
            **({"not_compared": reason} if reason else {}),
        },
    )


def _compare_line(runs: Sequence[ListedRun]) -> list[Line]:
    """Write the command that compares the two best runs on one data file."""
    best = [run for run in _groups(runs)[0] if run.accuracy is not None][:2] if runs else []
    if len(best) < 2 or best[0].data_sha256 is None:
        return []
    names = " ".join(shlex.quote(shown(run.folder)) for run in best)
    return [Line(one_line(f"Compare two of them: pact-eval report {names}"), "faint")]


def _json(run: ListedRun, names: ArmNames) -> Json:
    """Return a run; accuracies are fractions, times in ISO 8601."""
    values = members(run)
    for name in ("order", "probabilities", "data"):
        if getattr(run, name) is not None:
            values[name] = conclusion_json(getattr(run, name))
    for name in ("pair_accuracy", "answer_mass", "accuracy"):
        estimate = getattr(run, name)
        values[name] = None if estimate is None else estimate_json(estimate)
    values["arm_name"] = None if run.arm is None else names.arm(run.arm)
    values["created"] = None if run.created is None else run.created.isoformat()
    return values


def present_run(run: Run) -> Presenter:
    """Present a run as a card; its JSON is the key `run` of a report."""
    return Presenter(
        tables=lambda: (run_card(run),),
        to_json=lambda: {"run": dict(run.provenance.recorded)},
    )


_TONES: Final[dict[RunState, Tone]] = {
    "complete": "good",
    "resumable": "caution",
    "tampered": "bad",
    "unreadable": "bad",
}
_LONGEST_NAME: Final = 22
_LEGEND: Final[tuple[tuple[Mark, str], ...]] = (
    ("significant", "the probabilities are shown to be wrong"),
)
_ORDERS: Final[dict[Decoding, str]] = {
    "single": "the first order",
    "ensemble": "all orders together",
}
_ECE: Final = "ECE, chance"
_SPENT: Final = "price, latency (95%)"
_EXPLAINED: Final = {
    _ECE: " ECE, chance: that of a calibrated model.",
    _SPENT: " Price of a request; its median latency.",
    "mass": " Mass: the probability on the answer letters.",
}


def run_list_parts(
    runs: Sequence[ListedRun], arms: ArmNames = KEYS, settings: Settings | None = None
) -> tuple[Part, ...]:
    """Lay out a list of runs.

    Args:
        runs: the runs.
        arms: display names of arms.
        settings: of their numbers; None stands for the defaults.

    Returns:
        A table with a row per run, in groups of one data file, without columns that say nothing of
        any run; then what to do about runs that are not complete.
    """
    title, names = _names(runs)
    low = any(map(_has_low_mass, runs))  # then it is a finding, and has its interval

    def name(run: ListedRun) -> Cell:
        """Return what a run is called, its arm if that has another name, and an unusual role."""
        arm = run.arm or ""
        labels = [arms.arm(arm)] if arms.arm(arm) != arm else []
        labels += [] if run.role in (None, EVALUATION) else [str(run.role)]
        return Cell(names[run.folder], below=one_line(", ".join(labels)))

    def pairs(run: ListedRun) -> str:
        pair = run.pair_accuracy
        return "" if pair is None else value_text(pair.value, "percent")

    def state(run: ListedRun) -> Cell:
        reason = None if run.reason is None else one_line(run.reason)
        return Cell(run.state, reason=reason, tone=_TONES[run.state])

    table = make_table(
        "runs",
        [run for group in _groups(runs) for run in group],
        (Column("run", "left"), name),
        ("items", lambda run: "" if run.items is None else run.items),
        (Column("accuracy", "left"), _accuracy_cell),
        ("pairs", pairs),
        ("mass", partial(_mass_cell, interval=low)),
        (Column("order", "left"), lambda run: _word_cell(run.order)),
        (_ECE, _ece_cell),
        (Column(_SPENT, "left"), lambda run: "" if run.spent is None else run.spent.cell),
        (Column("data", "left"), lambda run: _word_cell(run.data)),
        (Column("state", "left"), state),
        rule=lambda run: (run.data_sha256,),
        title=title,
        legend=_LEGEND,
        keys=1,
    )
    cells = ((at, cell) for row in table.rows for at, cell in enumerate(row.cells))
    table = table.only(
        sorted({at for at, cell in cells if cell.text not in ("", UNDEFINED) or cell.reason})
    )
    settings = settings or Settings()
    caption = (
        f"In %, of {_ORDERS[settings.decoding]}, {plain_decoding(1, settings.calibration_name)}; "
        "runs on one data file by accuracy."
    )
    caption += "".join(_EXPLAINED.get(column.title, "") for column in table.columns)
    if any(run.data is not None and run.data.tone == "good" for run in runs):
        caption += " Sound: as far as checked."
    return (replace(table, caption=caption), *_advice(runs, names))


def _names(runs: Sequence[ListedRun]) -> tuple[str, dict[Path, str]]:
    """Return the title, and a name of each run: without its folder if all runs are in one."""
    parents = {run.folder.parent for run in runs}
    title = f"Runs in {parents.pop()}" if len(parents) == 1 else "Runs"
    folders = [run.folder for run in runs]
    texts = [folder.name if len(parents) == 0 else str(folder) for folder in folders]
    return one_line(title), dict(zip(folders, short_names(texts, _LONGEST_NAME), strict=True))


def _groups(runs: Sequence[ListedRun]) -> list[list[ListedRun]]:
    """Return the runs on each data file, the most accurate first; most runs first, then by name."""

    def rank(run: ListedRun) -> float:
        unknown = run.accuracy is None or math.isnan(run.accuracy.value)
        return math.inf if run.accuracy is None or unknown else -run.accuracy.value

    groups: dict[str | None, list[ListedRun]] = {}
    for run in runs:
        groups.setdefault(run.data_sha256, []).append(run)
    ranked = [sorted(group, key=rank) for group in groups.values()]
    return sorted(ranked, key=lambda group: -len(group))


def _has_low_mass(run: ListedRun) -> bool:
    return run.answer_mass is not None and LowAnswerMass.of(run.answer_mass.value) is not None


def _mass_cell(run: ListedRun, *, interval: bool) -> Cell:
    """Write the answer mass, in the colour of bad news if it is low."""
    mass = run.answer_mass
    if mass is None or math.isnan(mass.value):
        return Cell("")
    text = small_text(mass.value, "percent")
    if interval and has_width(mass):
        text += f" {ends_text(mass.low, mass.high, 'percent')}"
    return Cell(text, tone="bad" if _has_low_mass(run) else None)


def _accuracy_cell(run: ListedRun) -> Cell:
    if run.accuracy is None:
        return Cell("")
    return replace(estimate_cell(run.accuracy, "percent"), reason=plain_reason(run.accuracy))


def _ece_cell(run: ListedRun) -> Cell:
    """Write the ECE next to its noise floor, marked if an error is shown."""
    if run.probabilities is None:
        return Cell("")
    ece = run.probabilities.ece
    floor = ece.floor if isinstance(ece, CalibrationError) else math.nan
    text = f"{value_text(ece.value, 'percent')}, {value_text(floor, 'percent')}"
    shown = run.probabilities.ece_shown
    return Cell(text, mark="significant" if shown else None, tone=tone_of(run.probabilities))


def _word_cell(conclusion: Conclusion | None) -> Cell:
    match conclusion:
        case OrderConclusion():
            return Cell(conclusion.word, tone=tone_of(conclusion))
        case DataConclusion():
            word = conclusion.emphasise(conclusion.status.partition(" as far")[0])
            return Cell(word, tone=tone_of(conclusion))
        case _:
            return Cell("")


def _advice(runs: Sequence[ListedRun], names: dict[Path, str]) -> Iterator[Line]:
    for run in runs:
        if run.state == "resumable":
            of_total = "" if run.views_wanted is None else f" of {run.views_wanted:,}"
            text = (
                f"{names[run.folder]}: resumable: {run.views or 0:,}{of_total} views; repeat the "
                "command that started the run."
            )
            yield Line(text, "caution")
        if run.gaps:
            words = gap_words(run.gaps)
            yield Line(f"{names[run.folder]}: {words}.", "caution")
    if any(run.state == "tampered" for run in runs):
        yield Line("Tampered: `pact-eval verify RUN` names what differs.", "caution")


def run_card(run: Run) -> Table:
    """Lay out a run: one row per fact.

    Args:
        run: on full or ablated contexts.
    """
    views, seal = run.predictions, run.provenance.seal
    facts = run_facts(run.provenance)
    if run.ablated:
        facts["contexts"] = "ablated contexts, which have no right answers"
    facts["sample"] = sample_text(len(views), len({*views.family.tolist()}), "family")
    facts["views"] = f"K = {views.k}"
    if seal is not None:
        facts["seal"] = seal_digest(seal)
    return make_table(
        "run",
        facts.items(),
        (Column("", "left"), lambda fact: fact[0]),
        (Column("", "left"), lambda fact: one_line(str(fact[1]))),
        title=one_line(f"Run {run.title}"),
        keys=1,
    )
