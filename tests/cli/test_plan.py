"""`pact-eval plan` as a user meets it."""

from __future__ import annotations

import json

from commands import refuser, runner
from messages import assert_says

import pact_eval
from pact_cli.main import main


def test_the_command_prints_what_python_returns() -> None:
    words = ("plan", "--difference", 5, "--accuracy", 80, "--agree", 85, "--family-size", 2)
    plan = pact_eval.plan(5, 80, agree=85, family_size=2)
    assert json.loads(runner(main)(*words, "--json").stdout) == plan.to_json()
    printed = runner(main)(*words).stdout
    assert printed.splitlines()[0] == plan.sizes[0].line
    assert len(printed.splitlines()) <= 12


def test_a_fraction_is_refused_as_usage() -> None:
    message = refuser(main)("plan", "--accuracy", 0.85, code=2)
    assert_says(message, "--accuracy 0.85", "85 for 85%")


def test_groups_of_independent_items_are_allowed() -> None:
    words = ("plan", "--accuracy", 80, "--agree", 85, "--difference", 5, "--alike", 0)
    first = runner(main)(*words, "--family-size", 2, "--json").stdout
    assert json.loads(first) == pact_eval.plan(5, 80, agree=85, alike=0, family_size=2).to_json()
