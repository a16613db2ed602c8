"""Assertions on runs for tests, with the verdict and the text of the command line.

    from pact_eval.pytest import assert_meets, assert_not_worse

    def test_the_new_version() -> None:
        assert_not_worse("runs/new", "runs/old", points=2, accuracy=85, ece=8)

They need no plugin, and work under any test runner: they raise `AssertionError`.
"""

from __future__ import annotations

from dataclasses import replace

from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.requirements import Release, Requirement, judge_release
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.folder import RunSource

__all__ = ["assert_meets", "assert_not_worse"]


def assert_not_worse(
    new: RunSource,
    old: RunSource,
    points: float | str = 2,
    *,
    by: str | None = None,
    settings: Settings | None = None,
    **bounds: float | str,
) -> Release:
    """Assert that a run is not worse than the one before, as `compare --not-worse` does.

    Args:
        new: the run, or its folder.
        old: the run before, on the same items.
        points: how many points of accuracy may be lost.
        by: require everything of every group of this column, in place of all items. None: of every
            question, if the items are of several; "all": of all items as one group.
        settings: decoding, bootstrap and further choices; None takes the defaults.
        bounds: least or largest values of metrics of the new run, as for `--require`; rates are in
            percent.

    Returns:
        The judged requirements, if they pass.

    Raises:
        AssertionError: the verdict is FAIL or CANNOT TELL, or items leak; it says what the command
            prints.
        InputError: the items differ, or a bound cannot be used.

    Examples:
        >>> from pact_eval.pytest import assert_not_worse
        >>> assert_not_worse("runs/method", "runs/baseline", points=60).verdict
        'PASS'
    """
    __tracebackhide__ = True
    return _asserted([new, old], [Requirement.not_worse(str(points))], by, settings, bounds)


def assert_meets(
    run: RunSource,
    *,
    by: str | None = None,
    settings: Settings | None = None,
    **bounds: float | str,
) -> Release:
    """Assert that a run keeps bounds of metrics, as `report --require` does.

    Args:
        run: the run, or its folder.
        by: as for `assert_not_worse`.
        settings: as for `assert_not_worse`.
        bounds: as for `assert_not_worse`; one or more.

    Returns:
        The judged requirements, if they pass.

    Raises:
        AssertionError: as for `assert_not_worse`.
        InputError: there is no bound, or one cannot be used.

    Examples:
        >>> from pact_eval.pytest import assert_meets
        >>> assert_meets("runs/method", accuracy=20).verdict
        'PASS'
    """
    __tracebackhide__ = True
    return _asserted([run], [], by, settings, bounds)


def _asserted(
    runs: list[RunSource],
    required: list[Requirement],
    by: str | None,
    settings: Settings | None,
    bounds: dict[str, float | str],
) -> Release:
    __tracebackhide__ = True
    chosen = settings or Settings()
    chosen = chosen if by is None else replace(chosen, by=by)
    requirements = [*required, *(Requirement.parse(f"{name}={bounds[name]}") for name in bounds)]
    experiment = Experiment.read(runs, chosen, unique_labels=False)
    release = judge_release(experiment, requirements, grouped=None if by is None else True)
    if release.verdict != "PASS":
        raise AssertionError(str(release))
    return release
