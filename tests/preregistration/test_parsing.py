"""Reading hypotheses.toml: what is accepted, and how everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from messages import assert_says

from pact_eval.errors import InputError, RecordError
from pact_eval.evaluation.arms.arm_differences import Margin
from pact_eval.evaluation.registry import SINGLE
from pact_eval.preregistration.criteria import Check, Instead, parse_hypotheses, read_hypotheses

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
            decodings=(SINGLE,),
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
    ("old", "new", "expected"),
    [
        ('metric = "accuracy"', 'metric = "acuracy"', 'got "acuracy"; did you mean accuracy?'),
        ('is = "higher"', 'is = "higher"\nneed = "x"', "unknown key need in a check; did you mean"),
        ('arm = "a"', "arm = []", "expected arm, "),
        ('arm = "a"', 'arm = ["a", "a"]', "arm names a twice"),
        ('"single"', '"ensembel"', 'got "ensembel"; did you mean ensemble?'),
        ('is = "higher"', 'is = "better"', "expected is, one of higher, lower, not higher, "),
        ('than = { arm = "b" }', 'than = "b"', "expected than, such as { arm"),
        ('than = { arm = "b" }', 'than = { arms = "b" }', "unknown key arms in than"),
        ('than = { arm = "b" }', 'than = { arm = "a" }', "than compares accuracy of a "),
        ('{ arm = "b" }', '{ arm = "b" }\nminus = { group = "all" }', "from itself"),
        ('{ arm = "b" }', '{ metric = "nll_nats" }', "accuracy, nll_nats have different units"),
        ('"means"', '"mean"', 'got "mean"; did you mean means?'),
        ('"means"', '"means"\nseeds = [17, true]', "expected seeds as a list of integers"),
        ('"means"', '"means"\nseeds = [17, 17]', "seeds names 17 twice"),
        ('is = "higher"', 'is = "similar"', "expected within as text"),
        ('is = "higher"', 'is = "similar"\nwithin = 0.02', "expected within as text"),
        ('is = "higher"', 'is = "similar"\nwithin = "2 levels"', "expected a number of points"),
        ('is = "higher"', 'is = "higher"\nwithin = "2 points"', "use by_more_than"),
        ('metric = "accuracy"', 'metric = "view_tv"', "its decoding is ensemble or "),
        ('arm = "a"', 'arm = "a"\ngroup = "noul"', 'group "noul" is written "boolean" here'),
        ('claim = "A is better than B."', 'claim = " "', "(id H1): expected claim"),
        ('id = "H1"', "id = 1", "hypothesis 1: expected id"),
        ("[[hypothesis.check]]", "[hypothesis.check]", "expected check as tables"),
        ('-1"', '-2"', 'expected format = "pact-hypotheses-1", got "pact-hypotheses-2"'),
        ('-1"', '-1"\nauthor = "me"', "unknown key author in the file"),
    ],
)
def test_what_is_not_understood_is_refused_at_its_place(old: str, new: str, expected: str) -> None:
    (problem,) = problems(edited(old, new))
    assert expected in problem
    in_check = GOOD.index(old) > GOOD.index("[[hypothesis.check]]")
    assert problem.startswith("mine.toml: (id H1): check 1: " if in_check else "mine.toml: ")


def test_checks_of_one_hypothesis_have_words_of_their_own() -> None:
    check = GOOD.split("\n\n")[2]
    (problem,) = problems(f"{GOOD}\n{check.replace('.check', '.beside')}")
    assert_says(problem, "mine.toml: (id H1): ", '"higher accuracy"', "different name")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (GOOD.replace('arm = "a"', "arm = a"), 11),
        (GOOD.replace('arm = "a"', 'arm = "a"\narm = "b"'), 12),
        (GOOD + 'needs = "', 16),
    ],
)
def test_malformed_toml_is_refused_with_its_line(text: str, line: int) -> None:
    (problem,) = problems(text)
    assert problem.startswith(f"mine.toml:{line}: not valid TOML (")


def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in problems(f'format = "pact-hypotheses-1"\na = {"[" * 9000}')[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.toml: no such file"):
        read_hypotheses(tmp_path / "missing.toml")
    with pytest.raises(InputError, match="a file, got a folder"):
        read_hypotheses(tmp_path)
    broken = tmp_path / "broken.toml"
    broken.write_bytes(b"a = 1\nb = '\xff'\n")
    with pytest.raises(InputError, match=r"broken\.toml:2: not valid UTF-8"):
        read_hypotheses(broken)
