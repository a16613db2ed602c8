"""The first screen of a page: verdicts, headline numbers, what to worry about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval.hypotheses import Registration, Scorecard
from pact_reports.documents.model import Table
from pact_reports.documents.paired_tests import SeedTest
from pact_reports.numbers import estimate_text, p_value_text
from pact_reports.page.html_tables import table_html
from pact_reports.page.markup import Html, data_text, element, joined
from pact_reports.page.worries import GRAVITIES, WORRIES, Gravity, Worry

__all__ = ["headline_html", "verdicts_html", "worries_html"]

_OPEN_RUNS: Final = 4
_GRAVITY_WORDS: Final[Mapping[Gravity, str]] = {
    "grave": "Grave",
    "serious": "Serious",
    "minor": "To know",
}


def verdicts_html(
    scorecard: Scorecard | str,
    registration: Registration | None,
    tests: Sequence[SeedTest] | str,
    method: str,
) -> Html:
    """Write the verdicts: of the criteria, and of the method against every other arm.

    Args:
        scorecard: of the criteria; or why they cannot be judged, "" where none were given.
        registration: what their lock proves.
        tests: of the method; or why there are none.
        method: the arm that is compared.
    """
    said: list[Html]
    if isinstance(scorecard, str):
        said = [_no_verdict(scorecard)]
    else:
        items = [
            element(
                "li",
                element("span", result.verdict, class_=f"verdict {_verdict_class(result.verdict)}"),
                " ",
                data_text(result.hypothesis.id),
                ": ",
                data_text(result.hypothesis.claim),
            )
            for result in scorecard.results
        ]
        said = [element("ul", *items, class_="verdicts")]
        if registration is not None:
            said.append(element("p", "Registration: ", element("strong", registration.status), "."))
    return element("section", element("h3", "Verdicts"), *said, _tests(tests, method))


def _no_verdict(reason: str) -> Html:
    if reason:
        return element("p", "The criteria cannot be judged: ", data_text(reason), ".")
    return element(
        "p",
        "No criteria were given (",
        element("code", "--criteria HYPOTHESES.toml"),
        "), so that there is no verdict: differences below were looked at after the fact.",
    )


def _verdict_class(verdict: str) -> str:
    return {"SUPPORTED": "good", "CONTRADICTED": "bad"}.get(verdict, "open")


def _tests(tests: Sequence[SeedTest] | str, method: str) -> Html:
    if isinstance(tests, str):
        return element("p", "No paired test: ", data_text(tests), ".")
    lines = []
    for test in tests:
        estimate = test.family_interval
        seed = "" if test.seed is None else f" at seed {test.seed}"
        p_value = test.families.p_value
        # NaN has a reason, which the table of paired tests tells.
        tested = "" if p_value != p_value else f"; sign flip over families {p_value_text(p_value)}"
        lines.append(
            element(
                "li",
                data_text(method),
                " against ",
                data_text(test.control),
                f"{seed}: ",
                element("strong", f"{estimate_text(estimate, 'points')} points"),
                f" of accuracy, {test.items.b:,} items only {method} gets right, "
                f"{test.items.c:,} only {test.control}{tested}",
            )
        )
    return joined(
        [
            element("p", "Paired tests of ", data_text(method), ", 95% intervals over families:"),
            element("ul", *lines, class_="tests"),
        ]
    )


def headline_html(main: Table | None, reason: str, runs: Table) -> Html:
    """Write the headline tables: main results of arms, and every run by itself.

    Args:
        main: the table of main results, or None.
        reason: why there is none.
        runs: every run.
    """
    if main is None:
        first = element("p", "No table of main results: ", data_text(reason), ".")
        return joined([first, table_html(runs)])
    every = element("details", element("summary", "Every run by itself"), table_html(runs))
    return joined([table_html(main), every])


def worries_html(worries: Sequence[Worry]) -> Html:
    """Write what to worry about, those of one sort together.

    Args:
        worries: gravest first.
    """
    heading = element("h3", "What to worry about")
    if not worries:
        none = element("p", "Nothing was found of what is looked for; docs/page.md lists it.")
        return element("section", heading, none)
    counts = [
        f"{sum(each.gravity == gravity for each in worries):,} {_GRAVITY_WORDS[gravity].lower()}"
        for gravity in GRAVITIES
        if any(each.gravity == gravity for each in worries)
    ]
    sorts = dict.fromkeys((each.gravity, each.kind) for each in worries)
    items = [
        _sort(*sort, [each for each in worries if (each.gravity, each.kind) == sort])
        for sort in sorts
    ]
    return element(
        "section",
        heading,
        element("p", f"By gravity: {', '.join(counts)}."),
        element("ul", *items, class_="worries"),
    )


def _sort(gravity: Gravity, name: str, found: Sequence[Worry]) -> Html:
    kind = WORRIES[name]
    lines = [_line(each, kind.show) for each in found]
    shown = element("ul", *lines[:_OPEN_RUNS])
    more = None
    if len(lines) > _OPEN_RUNS:
        rest = lines[_OPEN_RUNS:]
        more = element("details", element("summary", f"{len(rest):,} more"), element("ul", *rest))
    return element(
        "li",
        element("span", _GRAVITY_WORDS[gravity], class_=f"gravity {gravity}"),
        " ",
        element("strong", kind.title),
        element("p", kind.why, class_="why"),
        shown,
        more,
        class_=gravity,
        data_worry=name,
    )


def _line(worry: Worry, show: str | None) -> Html:
    about = None if worry.run is None else joined([data_text(worry.run), ": "])
    link = None
    if show is not None and worry.run is not None:
        link = joined(
            [
                " ",
                element("a", "show them", href="#items", data_show=show, data_run=worry.run),
            ]
        )
    return element("li", about, data_text(worry.says), link)
