"""The first screen of a page: verdicts, headline numbers, what to worry about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval.preregistration import DecodingName, Registration, Scorecard
from pact_reports.numbers import interval_text, p_value_text
from pact_reports.page.diagnostics import GRAVITIES, WORRIES, Gravity, Worry
from pact_reports.page.markup import Html, data_text, element, joined
from pact_reports.page.verdicts import criteria_html
from pact_reports.table import Table
from pact_reports.tables.metric_values import DECODING_WORDS
from pact_reports.tables.paired_tests import SeedTest
from pact_reports.writers.html import table_html

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
    decoding: DecodingName,
) -> Html:
    """Write the verdicts: of the criteria, and of the method against every other arm.

    Args:
        scorecard: of the criteria; or why they cannot be judged, "" where none were given.
        registration: what their lock proves.
        tests: of the method; or why there are none.
        method: the arm that is compared.
        decoding: that the tests rest on.
    """
    criteria = criteria_html(scorecard, registration)
    tested = _tests(tests, method, DECODING_WORDS[decoding])
    return element("section", element("h3", "Verdicts"), criteria, tested)


def _tests(tests: Sequence[SeedTest] | str, method: str, decoding: str) -> Html:
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
                element("strong", interval_text(estimate, "points", " points")),
                f" of accuracy, {test.items.b:,} items only {method} gets right, "
                f"{test.items.c:,} only {test.control}{tested}",
            )
        )
    items, families = tests[0].items, tests[0].families
    scope = f"{items.n:,} items, {families.clusters:,} families"
    many = f"{len(tests):,} tests, p unadjusted" if len(tests) > 1 else "1 test"
    basis = f" ({decoding}; {scope}; {many}); 95% intervals over families:"
    return joined(
        [
            element("p", "Paired tests of ", data_text(method), basis),
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


def worries_html(worries: Sequence[Worry], labels: Sequence[str]) -> Html:
    """Write what to worry about, those of one sort together.

    Args:
        worries: gravest first.
        labels: of the runs, in the order in which the item browser has them.
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
        _sort(*sort, [each for each in worries if (each.gravity, each.kind) == sort], labels)
        for sort in sorts
    ]
    return element(
        "section",
        heading,
        element("p", f"By gravity: {', '.join(counts)}."),
        element("ul", *items, class_="worries"),
    )


def _sort(gravity: Gravity, name: str, found: Sequence[Worry], labels: Sequence[str]) -> Html:
    kind = WORRIES[name]
    lines = [_line(each, kind.show, labels) for each in found]
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


def _line(worry: Worry, show: str | None, labels: Sequence[str]) -> Html:
    about = None if worry.run is None else joined([data_text(worry.run), ": "])
    link = None
    if show is not None and worry.run in labels:
        # By its place: a name is shown otherwise than it is kept where signs are unprintable.
        place = str(labels.index(worry.run))
        link = joined(
            [" ", element("a", "show them", href="#items", data_show=show, data_run=place)]
        )
    return element("li", about, data_text(worry.says), link)
