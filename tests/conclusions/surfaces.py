"""The status of every question, read from what each surface prints, not from its object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import ascii_lowercase

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
    "not tested": "cannot tell",
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
    "yes": "share guaranteed",
    "share guaranteed": "share guaranteed",
    "no": "none shown",
    "none shown": "none shown",
    "cannot tell": "cannot tell",
}


_DATA = {
    status: status
    for status in ("leak", "problems", "doubts", "sound as far as checked", "not checked")
}


_WHERE = {status: status for status in ("nothing found", "too few to tell", "no groups")}


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


def where_status(text: str) -> str:
    """Returns the status; a line that names groups is of status "found"."""
    return next((status for phrase, status in _WHERE.items() if text.startswith(phrase)), "found")


def better_statuses(text: str, views: tuple[int, ...]) -> dict[int, str]:
    """Returns the status by number of views of "b is more accurate than a over 4 orders, ..."."""
    finding = text.partition(": ")[0].lower()
    statuses: dict[int, str] = {}
    for part in re.split(
        r", (?=not shown|but |better|worse|equivalent)", re.sub(r" \(p [^)]*\)", "", finding)
    ):
        (status, *_) = (status for phrase, status in _BETTER.items() if phrase in part)
        over = re.search(r"over (\d+) (?:orders|repeats together)", part)
        if over:
            statuses[int(over[1])] = status
        elif "in the first order" in part or "in the mean of" in part:
            statuses[1] = status
        else:
            statuses = dict.fromkeys(views, status)
    return statuses


def headline_statuses(text: str, views: tuple[int, ...]) -> dict[int, str]:
    """Returns the status by number of views of the headline "a 60%, b 50%: a is more accurate"."""
    finding = re.sub(r"^.*?%: ", "", text.lower())
    if "no difference shown" in finding:
        return dict.fromkeys(views, "not shown")
    if ahead := re.match(r"([ab]) is more accurate, by", finding):
        return dict.fromkeys(views, "better" if ahead[1] == "a" else "worse")
    if finding.startswith("as accurate, within"):
        return dict.fromkeys(views, "equivalent")
    statuses = better_statuses(re.sub(r"\. .*", "", finding), views)
    turned = {"better": "worse", "worse": "better"} if finding.startswith("b is") else {}
    return {k: turned.get(status, status) for k, status in statuses.items()}


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
        "where": where_status(named["where"]),
        "data": data_status(named.get("data", text.partition("\n")[0])),
        "order": order_status(named["order"]),
        "probabilities": probabilities_status(named["probabilities"]),
        **({"acting": acting_status(named["acting alone"])} if "acting alone" in named else {}),
    }
