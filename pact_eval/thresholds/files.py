"""`thresholds.json`: gates with their guarantee, and the model and decoding that they belong to.

    {"format": "pact-thresholds-1",
     "guarantee": one sentence,
     "rule": {"signal", "decoding", "calibration", "k", "by", "unit", "counting"},
     "target": {"kind", "rate", "cost_wrong", "cost_review"},
     "confidence": {"asked", "each", "all", "together"},
     "gates": {group: {"sureness_at_least": number or null, "coverage": [value, low, high],
                       "realised_error": number or null, "accepted", "wrong", "p_value"}},
     "model": identity of the run's model and prompts, "calibrator_sha256": ... or null,
     "fingerprint": SHA-256 of model, calibrator and rule,
     "chosen_on": {"run", "arm", "seed", "data_sha256", "predictions_sha256", "items", "unanswered",
                   "families": [names], "source_families": [names]},
     "sha256": SHA-256 of the other members}

The sureness is the signal, or minus the signal if low values are sure (entropy, disagreement).
null accepts nothing, -10 every answer. The hash shows a change by accident or by hand; it is not a
signature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from pact_eval._choices import ClusterUnit, Counting, Decoding, GateGroups, Signal
from pact_eval._files import read_json, write_atomically
from pact_eval._json import Json, describe, dumps_indented, sha256_of_json
from pact_eval.calibration.files import calibrator_sha256
from pact_eval.errors import InputError, TamperedError
from pact_eval.evaluation.experiment_run import ExperimentRun
from pact_eval.evaluation.report import Calibration
from pact_eval.runs.custody import trained_on_json
from pact_eval.runs.identity import RunIdentity
from pact_eval.thresholds.choice import Gate, Rule, Thresholds
from pact_eval.thresholds.signals import EVERY_ANSWER
from pact_eval.thresholds.targets import Target, TargetKind

FORMAT: Final = "pact-thresholds-1"
"""What the format of thresholds calls itself."""

SETS_FORMAT: Final = "pact-answer-sets-1"
"""What the format of answer sets calls itself."""

_READERS: Final = {
    FORMAT: "; `pact-eval thresholds RUN --check FILE` reads it",
    SETS_FORMAT: "; `pact-eval thresholds RUN --sets --check FILE` reads it",
}


_RULE: Final[Mapping[str, Any]] = {
    "signal": Signal,
    "decoding": Decoding,
    "calibration": Calibration,
    "by": GateGroups,
    "unit": ClusterUnit,
    "counting": Counting,
}

Promise = TypeVar("Promise")


@dataclass(frozen=True)
class ThresholdsFile:
    """Content of a file of thresholds.

    Attributes:
        path: the file.
        rule: what the gates look at.
        target: what they keep.
        confidence: of each gate alone.
        gates: by group, the least sureness that is accepted; None accepts nothing.
        model: identity of the model that they were chosen for.
        calibrator_sha256: of the calibrator that was applied; None if they are on raw numbers.
        families: names of the families that they were chosen on.
    """

    path: Path
    rule: Rule
    target: Target
    confidence: float
    gates: Mapping[str, float | None]
    model: RunIdentity
    calibrator_sha256: str | None
    families: frozenset[str]


def thresholds_json(thresholds: Thresholds) -> dict[str, Json]:
    """Return the content of `thresholds.json`."""
    run = thresholds.run
    rule: dict[str, Json] = {**asdict(thresholds.rule)}
    content: dict[str, Json] = {
        "format": FORMAT,
        "guarantee": guarantee(thresholds),
        "rule": rule,
        "target": {**asdict(thresholds.target)},
        "confidence": {
            "asked": thresholds.confidence,
            "each": thresholds.confidence_of_each,
            "all": thresholds.confidence_of_all,
            "together": thresholds.together,
        },
        "gates": {gate.group: _gate_json(gate) for gate in thresholds.gates},
        **origin(
            run,
            rule,
            items=sum(gate.items for gate in thresholds.gates),
            unanswered=sum(gate.unanswered for gate in thresholds.gates),
            families=thresholds.families,
            source_families=thresholds.source_families,
        ),
    }
    return content | {"sha256": sha256_of_json(content)}


def origin(
    run: ExperimentRun,
    rule: Mapping[str, Json],
    *,
    items: int,
    unanswered: int,
    families: Sequence[str],
    source_families: Sequence[str],
) -> dict[str, Json]:
    """Return where a choice comes from: model, calibrator, fingerprint, and the run with its data.

    Args:
        run: the run that it was made on.
        rule: what it looks at, with the member `calibration`.
        items: items of the run, unanswered ones included.
        unanswered: items without an answer.
        families: names of the families.
        source_families: names of the source families.
    """
    model = RunIdentity.of(run.provenance).to_json()
    calibrator = None if rule["calibration"] == "raw" else run.calibrator
    calibrator_hash = None if calibrator is None else calibrator_sha256(calibrator)
    fingerprint = sha256_of_json(
        {"model": model, "calibrator_sha256": calibrator_hash, "rule": dict(rule)}
    )
    return {
        "model": model,
        "calibrator_sha256": calibrator_hash,
        "fingerprint": fingerprint,
        "chosen_on": {
            "run": run.place,
            "arm": run.provenance.arm,
            "seed": run.provenance.seed,
            "data_sha256": run.provenance.data.sha256,
            "predictions_sha256": run.run.seal.predictions_sha256,
            "items": items,
            "unanswered": unanswered,
            "families": [*families],
            "source_families": [*source_families],
            **trained_on_json(run.run),
        },
    }


def guarantee(thresholds: Thresholds) -> str:
    """Return the guarantee of the gates as one sentence."""
    units = "families" if thresholds.rule.unit == "family" else "source families"
    of = (
        "the error among accepted items"
        if thresholds.target.limits_error
        else "the share of escalated items"
    )
    several = len(thresholds.gates) > 1
    whom = (
        "for each gate alone" if several and not thresholds.together else "for all gates together"
    )
    return (
        f"With {100 * thresholds.confidence:g}% confidence over the {units} of the run"
        f"{f', {whom}' if several else ''}, {of} is at most "
        f"{100 * thresholds.target.rate:g}% in new {units} from the same population"
        f"{counting_text(thresholds.rule)}."
    )


def counting_text(rule: Rule) -> str:
    """Return what counts the same, to end a sentence on families; nothing if items do."""
    if rule.counting == "items":
        return ""
    return f", each {'family' if rule.unit == 'family' else 'source family'} counting once"


def write_thresholds(path: Path, thresholds: Thresholds) -> None:
    """Write a file of thresholds, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    write_atomically(path, dumps_indented(thresholds_json(thresholds)))


def read_thresholds(path: Path) -> ThresholdsFile:
    """Read a file of thresholds, strictly.

    Raises:
        InputError: it cannot be read, or is not a file of thresholds.
        TamperedError: it has changed since it was written.
    """
    return read_promise(path, FORMAT, "file of thresholds", "thresholds", _read)


def read_promise(
    path: Path,
    format_: str,
    noun: str,
    command: str,
    parse: Callable[[Path, Mapping[str, Any]], Promise],
) -> Promise:
    """Read a file that this package wrote, strictly.

    Args:
        path: the file.
        format_: what its format calls itself.
        noun: what it is, for messages.
        command: of pact-eval, which makes it.
        parse: makes the result from the path and the checked content.

    Raises:
        InputError: it cannot be read, or has another format.
        TamperedError: it has changed since it was written.
    """
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != format_:
        got = describe(value) if not isinstance(value, dict) else describe(value.get("format"))
        reader = _READERS.get(got.strip('"'), "")
        message = f'{path}: expected a {noun} with format "{format_}", got {got}{reader}'
        raise InputError(message)
    advice = f"restore it from a copy, or choose again with `pact-eval {command}`"
    if value.get("sha256") != sha256_of_json({key: value[key] for key in value if key != "sha256"}):
        message = f"{path}: changed since it was written (its SHA-256 is another one); {advice}"
        raise TamperedError(message)
    try:
        return parse(path, value)
    except (KeyError, TypeError, AttributeError) as error:
        message = f"{path}: a value is missing or of the wrong type: {error}; {advice}"
        raise InputError(message) from None


def read_rule(path: Path, rule: Mapping[str, Any]) -> Rule:
    """Return the rule of a file; members that it lacks have their defaults.

    A file that does not say what counts the same is of the time when items did.

    Raises:
        InputError: a member has an unknown value.
    """
    rule = {"counting": "items", **rule}
    for name, choices in _RULE.items():
        if name in rule and rule[name] not in get_args(choices):
            message = f"{path}: rule: {name}: expected one of {get_args(choices)}"
            raise InputError(message)
    return Rule(**rule)


def _read(path: Path, value: Mapping[str, Any]) -> ThresholdsFile:
    rule, target = read_rule(path, value["rule"]), value["target"]
    if target["kind"] not in get_args(TargetKind):
        message = f"{path}: target: kind: expected one of {get_args(TargetKind)}"
        raise InputError(message)
    gates = {name: gate["sureness_at_least"] for name, gate in value["gates"].items()}
    return ThresholdsFile(
        path=path,
        rule=rule,
        target=Target(**target),
        confidence=float(value["confidence"]["each"]),
        gates={name: None if least is None else float(least) for name, least in gates.items()},
        model=RunIdentity.of_json(value["model"]),
        calibrator_sha256=value["calibrator_sha256"],
        families=frozenset(value["chosen_on"]["families"]),
    )


def _gate_json(gate: Gate) -> dict[str, Json]:
    threshold, test = gate.chosen.threshold, gate.chosen.test
    realised = gate.realised_error.value
    return {
        "sureness_at_least": None if threshold is None else max(threshold, EVERY_ANSWER),
        "coverage": [gate.coverage.value, gate.coverage.low, gate.coverage.high]
        if math.isfinite(gate.coverage.low)
        else [gate.coverage.value, None, None],
        "realised_error": realised if math.isfinite(realised) else None,
        "accepted": None if test is None else test.accepted,
        "wrong": None if test is None else test.wrong,
        "p_value": None if test is None else test.p_value,
        "families": gate.units,
        "families_tested": gate.chosen.tested_units,
        "families_needed": gate.needed,
    }
