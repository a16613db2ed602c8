"""A release and what it must meet: verdict, requirements, and the items that decide."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from pact_eval._json import Json
from pact_eval.evaluation.requirements import JudgedRequirement, Release
from pact_eval.numbers import GENERALISATION
from pact_eval.plain_text import one_line
from pact_eval.runs.provenance import NAME as PROVENANCE_NAME
from pact_reports.cases import STATUS_OF, CiReport, data_case, gate_report, judged_case
from pact_reports.table import Cell, Column, Line, Table, Tone, columns_and_rows
from pact_reports.views.brief import Brief
from pact_reports.views.presenter import Presenter
from pact_reports.writers.json import answer_json, attributes, spending_json, to_json, warnings_json

_MOST_ROWS: Final = 8
_TONES: Final[dict[str, Tone | None]] = {"contradicted": "bad", "not shown": "caution"}


def present_release(release: Release, *, command: str = "pact-eval compare") -> Presenter:
    """Present whether a release meets what is required.

    Args:
        release: the judged requirements.
        command: that judged it, for the reports of CI.
    """
    return Presenter(
        first=partial(release_screen, release, _MOST_ROWS),
        tables=tuple,
        to_json=partial(_json, release),
        headline=lambda: [release.answer],
        warnings=[*map(str, release.warnings)],
        leak=lambda: release.experiment.data.leak,
        ci=partial(release_report, release, command),
    )


def release_screen(release: Release, most: int) -> Brief:
    """Return the requirements, those that decide first, and the items that decide.

    Args:
        release: the judged requirements.
        most: number of requirements to show; further ones are counted.
    """
    left, lines = release.judged[most:], list(_items(release))
    if release.spending is not None:
        lines[:0] = [Line(f"Requests: {one_line(release.spending.words(*release.names))}.")]
    if left:
        counts = (
            f"{sum(judged.test.finding == finding for judged in left):,} {finding}"
            for finding in dict.fromkeys(judged.test.finding for judged in left)
        )
        lines[:0] = [Line(f"More requirements: {', '.join(counts)}. --json lists all.", "faint")]
    return Brief(tables=[requirements_table(release.judged[:most])], lines=lines)


def requirements_table(judged: tuple[JudgedRequirement, ...]) -> Table:
    """Lay out requirements as lines: what is required, the number with its interval, the result."""
    layout = columns_and_rows(
        judged,
        (Column("required", "left"), lambda one: one.name),
        (Column("value", "left"), lambda one: one.value),
        (
            Column("result", "left"),
            lambda one: Cell(one.result, tone=_TONES.get(one.test.finding)),
        ),
    )
    return Table("requirements", "", "", *layout, bare=True)


def _items(release: Release) -> Iterator[Line]:
    """List the surest wrong answers: of items that the run before answers correctly, if any."""
    names, in_all = release.names, release.wrong_in_all
    what = f"Only {names[1]} right" if names[1:] else "Wrong answers"
    surest = f", the surest of {names[0]} first" if len(release.wrong) < in_all else ""
    yield Line(one_line(f"{what}: {in_all:,}{surest if in_all else ''}."))
    for item in release.wrong:
        yield Line(one_line(f"  {item.words}"))


def _json(release: Release) -> dict[str, Json]:
    runs = release.experiment.runs
    judged: list[Json] = [
        {
            "required": one.requirement.words,
            **attributes(one.requirement, "metric", "bound", "than_before"),
            "group": one.group,
            "finding": one.test.finding,
            "adjusted_p_value": to_json(one.test.p_value),
            "clusters_needed": one.test.needed,
            "reason": to_json(one.test.reason),
            "estimate": to_json(one.estimate),
        }
        for one in release.judged
    ]
    return {
        "answer": answer_json([release.experiment.data]) | {"release": release.answer},
        "verdict": release.verdict,
        "new": runs[0].place,
        "old": runs[1].place if runs[1:] else None,
        "decoding": {**release.experiment.settings.label},
        "intervals": GENERALISATION[release.experiment.settings.unit],
        "by": release.by or None,
        "requirements": judged,
        **({} if release.spending is None else {"spending": spending_json(release.spending)}),
        "items": to_json(release.wrong),
        "items_in_all": release.wrong_in_all,
        "warnings": warnings_json(release.warnings),
    }


def release_report(release: Release, command: str) -> CiReport:
    """Return the cases for CI: the data, and each requirement.

    Args:
        release: the judged requirements.
        command: that judged it.
    """
    file = release.new.folder / PROVENANCE_NAME
    cases = [data_case(release.experiment.data, file)]
    for one in release.judged:
        text = f"{one.value}: {one.result}"
        cases.append(judged_case("requirement", one.name, STATUS_OF[one.test.finding], text, file))
    return gate_report(command, release.answer, cases, map(str, release.warnings))
