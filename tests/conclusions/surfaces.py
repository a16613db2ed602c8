"""The status of every question, read from what each surface prints, not from its object."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from commands import runner
from conclusions.planted import TARGET

import pact_eval
from pact_cli.main import main
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_reports.page.assembly import make_page, write_page
from pact_reports.page.request import PageRequest

Statuses = Mapping[str, Any]
"""By question: a status; of "better" a status by number of views."""

_ORDER = {
    "follows the letter": "follows a letter",
    "avoids the letter": "follows a letter",
    "follows the last place": "follows a position",
    "avoids the last place": "follows a position",
    **{
        f"{verb} {letter}, the last place": "follows a letter"
        for verb in ("follows", "avoids")
        for letter in ascii_lowercase
    },
    "unstable": "unstable",
    "stable": "stable",
    "cannot tell": "cannot tell",
}
_PROBABILITIES = {
    "over-confident": "over-confident",
    "under-confident": "under-confident",
    "miscalibrated": "miscalibrated",
    "no error shown": "no error shown",
    "cannot tell": "cannot tell",
}
_BETTER = {
    "is more accurate than": "better",
    "is less accurate than": "worse",
    "is as accurate as": "equivalent",
    "no accuracy difference shown": "not shown",
    "not shown": "not shown",
    "cannot be compared": "cannot be compared",
    "more accurate": "better",
    "less accurate": "worse",
    "as accurate within": "equivalent",
    "better": "better",
    "worse": "worse",
    "equivalent": "equivalent",
}


_ACTING = {
    "may decide": "share guaranteed",
    "share guaranteed": "share guaranteed",
    "no share can be guaranteed": "none shown",
    "none shown": "none shown",
    "cannot tell": "cannot tell",
}


_DATA = {
    status: status
    for status in ("leak", "problems", "doubts", "sound as far as checked", "not checked")
}


def _status(text: str, phrases: Mapping[str, str]) -> str:
    """Returns the status of the phrase with which a text begins."""
    lowered = text.strip().lower()
    matching = [status for phrase, status in phrases.items() if lowered.startswith(phrase)]
    assert matching, text
    return matching[0]


def order_status(text: str) -> str:
    return _status(text, _ORDER)


def probabilities_status(text: str) -> str:
    return _status(text, _PROBABILITIES)


def acting_status(text: str) -> str:
    return _status(text, _ACTING)


def data_status(text: str) -> str:
    return _status(text, _DATA)


def better_statuses(text: str, views: tuple[int, ...]) -> dict[int, str]:
    """Returns the status by number of views of "b is more accurate than a over 4 views, ..."."""
    finding = text.partition(": ")[0].lower()
    statuses: dict[int, str] = {}
    for part in re.split(
        r", (?=not shown|but |better|worse|equivalent)", re.sub(r" \(p [^)]*\)", "", finding)
    ):
        (status, *_) = (status for phrase, status in _BETTER.items() if phrase in part)
        over = re.search(r"over (\d+) (?:views|repeats together)", part)
        if over:
            statuses[int(over[1])] = status
        elif "at view 0" in part or "in the mean of" in part:
            statuses[1] = status
        else:
            statuses = dict.fromkeys(views, status)
    return statuses


def _words_of_lines(text: str) -> dict[str, str]:
    """Returns the statuses in lines that begin with the name of a question, such as "Data:"."""
    statuses = {
        "Data": data_status,
        "Order": order_status,
        "Probabilities": probabilities_status,
        "Acting alone": acting_status,
    }
    line_of = {name: re.search(rf"^{name}: (.*)$", text, re.MULTILINE) for name in statuses}
    missing = [name for name, line in line_of.items() if line is None]
    assert not missing, text
    return {
        _QUESTIONS.get(name, name.lower()): statuses[name](line[1])
        for name, line in line_of.items()
        if line is not None
    }


_QUESTIONS = {"Acting alone": "acting"}


def terminal(
    runs: list[Path], options: tuple[str, ...], views: tuple[int, ...], margin: float | None
) -> tuple[Statuses, str]:
    """Reads `report` and `compare`; the model card that `report` writes says the same.

    Returns:
        The statuses, and what `report` printed.
    """
    run, card = runner(main), runs[0].parent / "README.md"
    report = run("report", runs[0], *options, *ASKED, "--model-card", card).stdout
    short = fact_statuses(report)
    assert card_statuses(card.read_text("utf-8")) == short
    if len(runs) < 2:
        return short, report
    text = run("compare", *runs, *options, *_margin(margin)).stdout
    return short | {"better": first_line_statuses(text, views, second=runs[1].name)}, report


def facts(text: str) -> dict[str, str]:
    """Returns the lines below an answer by their names, each unwrapped."""
    named: dict[str, str] = {}
    for line in text.splitlines():
        fact = re.match(r"  (\S.*?)(?:  +(.*))?$", line)
        if fact and fact[2] is not None:
            name, named[fact[1]] = fact[1], fact[2]
        elif line.startswith("   "):
            named[name] += f" {line.strip()}"
    return named


def fact_statuses(text: str) -> dict[str, str]:
    """Returns the status of every question about one run in the lines of `report`.

    A leak is the first line, and then no line is named "data".
    """
    named = facts(text)
    return {
        "data": data_status(named.get("data", text.partition("\n")[0])),
        "order": order_status(named["order"]),
        "probabilities": probabilities_status(named["probabilities"]),
        **({"acting": acting_status(named["acting alone"])} if "acting alone" in named else {}),
    }


def card_statuses(text: str) -> Statuses:
    """Returns the statuses of the conclusions in the section of a model card."""
    section = text[text.index("## Evaluation on ") :]
    lines = re.findall(
        r"^- ((?:Data|Order|Probabilities|Acting alone): .*)$", section, re.MULTILINE
    )
    return _words_of_lines("\n".join(html.unescape(line).replace("\\", "") for line in lines))


def first_line_statuses(text: str, views: tuple[int, ...], *, second: str) -> dict[int, str]:
    """Returns the statuses of the first run in the answer, which names the better run first."""
    statuses = better_statuses(text.partition("\n")[0], views)
    if not re.search(rf"(?:^|; ){second} is", text.partition("\n")[0]):
        return statuses
    other = {"better": "worse", "worse": "better"}
    return {k: other.get(status, status) for k, status in statuses.items()}


ASKED = ("--target-error", TARGET)


def _margin(margin: float | None) -> tuple[str, ...]:
    return () if margin is None else ("--margin", str(margin))


def in_json(runs: list[Path], options: tuple[str, ...], margin: float | None) -> Statuses:
    """Reads the key `answer` of `report --json` and `compare --json`."""
    run = runner(main)
    printed = run("report", runs[0], *options, *ASKED, "--json").stdout
    answer = json.loads(printed)["answer"]
    statuses = {question: conclusion["status"] for question, conclusion in answer.items()}
    if len(runs) < 2:
        return statuses
    words = (*runs, *options, *_margin(margin), "--json")
    (compared,) = json.loads(run("compare", *words).stdout)["answer"]["better"]
    claims = compared["claims"]
    better = {claim["k"]: claim["status"] for claim in claims if claim["metric"] == "accuracy"}
    return statuses | {"better": better}


def python(runs: list[Path], settings: Settings, views: tuple[int, ...]) -> Statuses:
    """Reads what `print` shows of the results of the API."""
    statuses = _words_of_lines(_unwrapped(str(pact_eval.evaluate(runs[0], settings))))
    if len(runs) < 2:
        return statuses
    text = _last_paragraph(str(pact_eval.compare(runs[0], runs[1], settings)))
    return statuses | {"better": better_statuses(text, views)}


def _last_paragraph(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[-1].split())


def _unwrapped(text: str) -> str:
    """Joins the lines of a sentence: a line that goes on begins neither a table nor a sentence."""
    return re.sub(r"\n(?=[a-z0-9(])", " ", text)


def page(runs: list[Path], settings: Settings, folder: Path, views: tuple[int, ...]) -> Statuses:
    """Reads headline, cards, diagnostics and captions of the page, which must agree."""
    experiment = Experiment.read(runs, settings)
    request = PageRequest(experiment, figures=(), tables=("splits",))
    write_page(make_page(request), folder / "page.html")
    text = (folder / "page.html").read_text(encoding="utf-8")
    cards = {
        question: html.unescape(word)
        for question, word in re.findall(
            r'<section class="card"><h3>([^<]*)</h3><p class="status [a-z]*">([^<]*)</p>', text
        )
    }
    statuses: dict[str, Any] = {
        "data": data_status(cards["Is the data sound?"]),
        "order": order_status(cards["Follows the order?"]),
        "probabilities": probabilities_status(cards["Probabilities right?"]),
        "acting": acting_status(cards["May it act alone?"]),
    }
    _check_diagnostics(text, statuses, len(runs))
    _check_captions(text, statuses)
    word = cards["Is it better?"]
    if len(runs) < 2:
        assert word == "Nothing to compare"
        return statuses
    (headline,) = re.findall(r'<p class="answer"><strong>(.*?)</strong>', text)
    statuses["better"] = better_statuses(html.unescape(headline), views)
    assert better_statuses(word, views) == statuses["better"]
    return statuses


_TITLES = {
    "Follows a letter or position": ("order", {"follows a letter", "follows a position"}),
    "Answers change with the order": ("order", {"unstable"}),
    "Order not checked": ("order", {"cannot tell"}),
    "Probabilities are wrong": (
        "probabilities",
        {"over-confident", "under-confident", "miscalibrated"},
    ),
}


def _check_diagnostics(text: str, statuses: Mapping[str, str], runs: int) -> None:
    """A diagnostic is raised if and only if the status says so; of one run all are its own."""
    if runs > 1:
        return
    matrix = text[text.index('id="diagnostics"') :]
    for title, (question, raising) in _TITLES.items():
        assert (f">{title}<" in matrix) == (statuses[question] in raising), title


def _check_captions(text: str, statuses: Mapping[str, str]) -> None:
    """The caption of the first reliability diagram says what the card says."""
    caption = re.search(r"<span>Raw: ([^<]*)</span>", text)
    assert caption is not None
    assert probabilities_status(html.unescape(caption[1])) == statuses["probabilities"]
