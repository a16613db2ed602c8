"""Reading hypotheses.toml: what is accepted, and how everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pact_eval.errors import InputError, RecordError
from pact_eval.preregistration import (
    Check,
    Instead,
    Margin,
    MetricTable,
    judge,
    pact_hypotheses,
    parse_hypotheses,
    read_hypotheses,
)

GOOD = """\
format = "pact-hypotheses-1"

[[hypothesis]]
id = "H1"
title = "Accuracy"
claim = "A is better than B."

[[hypothesis.check]]
says = "higher accuracy"
metric = "accuracy"
arm = "a"
decoding = "single"
is = "higher"
than = { arm = "b" }
judged_on = "means"
"""


def problems(text: str) -> list[str]:
    with pytest.raises(RecordError) as caught:
        parse_hypotheses(text, "mine.toml")
    return str(caught.value).splitlines()


def edited(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def only_check(text: str) -> Check:
    (hypothesis,) = parse_hypotheses(text, "mine.toml").hypotheses
    return hypothesis.checks[0]


def test_the_least_that_is_a_hypothesis() -> None:
    (hypothesis,) = parse_hypotheses(GOOD, "mine.toml").hypotheses
    assert (hypothesis.id, hypothesis.title) == ("H1", "Accuracy")
    assert hypothesis.beside == ()
    assert hypothesis.checks == (
        Check(
            says="higher accuracy",
            metric="accuracy",
            arms=("a",),
            decodings=("single",),
            groups=("all",),
            relation="higher",
            than=Instead(arm="b"),
            judged_on="means",
        ),
    )


def test_everything_that_may_be_said() -> None:
    check = only_check(
        edited('is = "higher"', 'is = "higher"\nby_more_than = "1 point"\nneeds = "two\\n  runs"')
        .replace('arm = "a"', 'arm = ["a", "c"]\ngroup = ["choice", "score"]\nseeds = [18, 17]')
        .replace('decoding = "single"', 'decoding = ["single", "ensemble"]')
        .replace('than = { arm = "b" }', 'than = { metric = "pair_accuracy" }\nminus = {arm="b"}')
    )
    assert (check.arms, check.groups, check.seeds) == (("a", "c"), ("choice", "score"), (18, 17))
    assert check.margin == Margin(1.0, "points")
    assert check.needs == "two runs"
    assert check.minus == Instead(arm="b")
    assert len(list(check.questions())) == 8


@pytest.mark.parametrize(
    ("metric", "text", "margin"),
    [
        ("accuracy", "2 points", Margin(2.0, "points")),
        ("ece", "0.5points", Margin(0.5, "points")),
        ("score_mae", "1 level", Margin(1.0, "levels")),
        ("nll_nats", "0.1 nats", Margin(0.1, "nats")),
        ("brier", "0.01", Margin(0.01, "")),
        ("ensemble_gain", "0 points", Margin(0.0, "points")),
    ],
)
def test_margins_have_the_unit_of_their_metric(metric: str, text: str, margin: Margin) -> None:
    similar = edited('is = "higher"', f'is = "similar"\nwithin = "{text}"')
    similar = similar.replace('decoding = "single"', 'decoding = "ensemble"')
    assert only_check(similar.replace('"accuracy"', f'"{metric}"')).margin == margin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            edited('metric = "accuracy"', 'metric = "acuracy"'),
            'mine.toml: (id H1): check 1: expected metric, the name of a metric, got "acuracy"; '
            "did you mean accuracy?",
        ),
        (
            edited('is = "higher"', 'is = "higher"\nneed = "runs"'),
            "mine.toml: (id H1): check 1: unknown key need in a check; did you mean needs?",
        ),
        (
            edited('arm = "a"', "arm = []"),
            "mine.toml: (id H1): check 1: expected arm, the name of an arm or a list of such, "
            "got a list",
        ),
        (edited('arm = "a"', 'arm = ["a", "a"]'), "mine.toml: (id H1): check 1: arm names a twice"),
        (
            edited('"single"', '"ensembel"'),
            "mine.toml: (id H1): check 1: expected decoding, one of single, single_calibrated, "
            'ensemble, ensemble_calibrated, got "ensembel"; did you mean ensemble?',
        ),
        (
            edited('is = "higher"', 'is = "better"'),
            "mine.toml: (id H1): check 1: expected is, one of higher, lower, not higher, "
            'not lower, similar, got "better"',
        ),
        (
            edited('than = { arm = "b" }', 'than = "b"'),
            'mine.toml: (id H1): check 1: expected than, such as { arm = "ce_only" }, got "b"',
        ),
        (
            edited('than = { arm = "b" }', 'than = { arms = "b" }'),
            "mine.toml: (id H1): check 1: unknown key arms in than; did you mean arm?",
        ),
        (
            edited('than = { arm = "b" }', 'than = { arm = "a" }'),
            "mine.toml: (id H1): check 1: than compares accuracy of a (single, all) with itself",
        ),
        (
            edited('than = { arm = "b" }', 'than = { arm = "b" }\nminus = { group = "all" }'),
            "mine.toml: (id H1): check 1: minus takes accuracy of a (single, all) from itself",
        ),
        (
            edited('than = { arm = "b" }', 'than = { metric = "nll_nats" }'),
            "mine.toml: (id H1): check 1: accuracy, nll_nats have different units "
            "and cannot be compared",
        ),
        (
            edited('"means"', '"mean"'),
            'mine.toml: (id H1): check 1: expected judged_on, one of matched, means, got "mean"; '
            "did you mean means?",
        ),
        (
            edited('"means"', '"means"\nseeds = [17, true]'),
            "mine.toml: (id H1): check 1: expected seeds as a list of integers, such as "
            "[17, 18, 19], got a list",
        ),
        (
            edited('"means"', '"means"\nseeds = [17, 17]'),
            "mine.toml: (id H1): check 1: seeds names 17 twice",
        ),
        (
            edited('is = "higher"', 'is = "similar"'),
            'mine.toml: (id H1): check 1: expected within as text, such as "2 points", got nothing',
        ),
        (
            edited('is = "higher"', 'is = "similar"\nwithin = 0.02'),
            'mine.toml: (id H1): check 1: expected within as text, such as "2 points", got 0.02',
        ),
        (
            edited('is = "higher"', 'is = "similar"\nwithin = "2 levels"'),
            "mine.toml: (id H1): check 1: within: expected a number of points, such as "
            '"2 points", got "2 levels"',
        ),
        (
            edited('is = "higher"', 'is = "higher"\nwithin = "2 points"'),
            'mine.toml: (id H1): check 1: within does not go with is = "higher"; use by_more_than',
        ),
        (
            edited('metric = "accuracy"', 'metric = "view_tv"'),
            "mine.toml: (id H1): check 1: view_tv is of the K views: its decoding is ensemble or "
            "ensemble_calibrated, got single",
        ),
        (
            edited('arm = "a"', 'arm = "a"\ngroup = "noul"'),
            'mine.toml: (id H1): check 1: group "noul" is written "boolean" here',
        ),
        (
            edited('claim = "A is better than B."', 'claim = " "'),
            'mine.toml: (id H1): expected claim, the claim in words, got " "',
        ),
        (
            edited('id = "H1"', "id = 1"),
            'mine.toml: hypothesis 1: expected id, such as "H1", got 1',
        ),
        (
            GOOD.split("[[hypothesis.check]]", maxsplit=1)[0],
            "mine.toml: (id H1): expected at least one check, [[hypothesis.check]]",
        ),
        (
            edited("[[hypothesis.check]]", "[hypothesis.check]"),
            "mine.toml: (id H1): expected check as tables, [[hypothesis.check]], got a table",
        ),
        (
            edited('format = "pact-hypotheses-1"', 'format = "pact-hypotheses-2"'),
            'mine.toml: expected format = "pact-hypotheses-1", got "pact-hypotheses-2"',
        ),
        (
            edited('format = "pact-hypotheses-1"', 'format = "pact-hypotheses-1"\nauthor = "me"'),
            "mine.toml: unknown key author in the file; expected one of format, hypothesis",
        ),
        (
            GOOD + GOOD.split("\n\n", maxsplit=1)[1],
            "mine.toml: two hypotheses have the id H1",
        ),
    ],
)
def test_what_is_not_understood_is_refused(text: str, message: str) -> None:
    assert problems(text) == [message]


def test_checks_of_one_hypothesis_have_words_of_their_own() -> None:
    check = GOOD.split("\n\n")[2]
    assert problems(f"{GOOD}\n{check.replace('.check', '.beside')}") == [
        'mine.toml: (id H1): two checks say "higher accuracy"; each needs a different name'
    ]


def test_all_problems_are_told_together() -> None:
    text = edited('metric = "accuracy"', 'metric = "x"').replace('"higher"', '"above"')
    text = text.replace('title = "Accuracy"\n', "colour = 1\n")
    found = problems(text)
    assert len(found) == 4
    for key in ("colour", "title", "metric", "is"):
        assert any(f" {key}" in line for line in found)


def test_a_senseless_check_is_told_beside_one_that_cannot_be_read() -> None:
    second = GOOD.split("\n\n")[2].replace("higher accuracy", "another").replace('"b"', '"a"')
    first = edited('is = "higher"', 'is = "above"')
    assert len(problems(f"{first}\n{second}")) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            GOOD.replace('arm = "a"', "arm = a"),
            "mine.toml:11: not valid TOML (Invalid value at column 7)",
        ),
        (
            GOOD.replace('arm = "a"', 'arm = "a"\narm = "b"'),
            "mine.toml:12: not valid TOML (Cannot overwrite a value at column 10)",
        ),
        (
            GOOD + 'needs = "',
            "mine.toml:16: not valid TOML (Unterminated string (at end of document))",
        ),
    ],
)
def test_malformed_toml_is_refused_with_its_line(text: str, message: str) -> None:
    assert problems(text) == [message]


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in problems(f'format = "pact-hypotheses-1"\na = {"[" * 9000}')[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.toml: no such file"):
        read_hypotheses(tmp_path / "missing.toml")
    with pytest.raises(InputError, match="expected a file, got a folder"):
        read_hypotheses(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(InputError, match=r"broken\.toml:2: not valid UTF-8"):
        read_hypotheses(broken)


def test_a_byte_order_mark_and_other_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert read_hypotheses(path) == parse_hypotheses(GOOD, "mine.toml")


def test_the_shipped_hypotheses_are_five_and_judge_an_empty_table() -> None:
    hypotheses = pact_hypotheses()
    assert [each.title for each in hypotheses.hypotheses] == [
        "Pair margin",
        "Permutation consistency",
        "Necessity",
        "Ordinal transport",
        "Calibration",
    ]
    assert set(judge(hypotheses, MetricTable([])).verdicts.values()) == {"UNTESTED"}
