"""Source "helm": the folder of a HELM run of joint multiple choice, or its `scenario_state.json`.

    {"adapter_spec": {"method": "multiple_choice_joint", "model", ...},
     "request_states": [{"instance": {"id", "split", "references": [{"output": {"text"},
                                                                     "tags": ["correct"]}],
                                      "perturbation"?},
                         "train_trial_index": 0, "output_mapping": {"A": "Ana", "B": "Ben"},
                         "result": {"success", "completions": [{"text": " B", "logprob"}]}}]}

The answer is the text of the letter that the most probable completion is, without the space around
it. Nothing else is an answer, and HELM counts it as wrong. A log-probability is that of the
completion alone, and some clients give 0, so a run has answers without probabilities.

The canonical order of the answers is that of their texts, and the order that was shown is the
`code_order`. Trials, which differ in the examples of the prompt, are views. The files
`per_instance_stats.json` and `stats.json` next to it say what HELM counts as right (`exact_match`,
or else `quasi_exact_match`).

HELM has one mean per split and perturbation, such as `test` and `test/typos`. One of them is read:
that of `--filter`, or the questions of `test` as they are, and a remark names the others. With
`--filter all`, perturbed questions are items of the family of their question.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pact_eval._json import Json, at, describe
from pact_eval.errors import InputError, Problem
from pact_eval.importing.source import (
    ImportOptions,
    Log,
    LogFacts,
    LogRow,
    Source,
    Start,
    as_dict,
    as_list,
    by_text,
    read_large_json,
)
from pact_eval.runs.provenance import TRIALS

_STATE: Final = "scenario_state.json"
_STATS_OF_ITEMS: Final = "per_instance_stats.json"
_STATS: Final = "stats.json"
_RUN: Final = "run_spec.json"
_KEYS: Final = (b'"adapter_spec"', b'"request_states"')
_JOINT: Final = ("multiple_choice_joint", "multiple_choice_joint_chain_of_thought")
_METRICS: Final = ("exact_match", "quasi_exact_match")
_CORRECT: Final = "correct"
_ABOUT_PERTURBATION: Final = ("name", "robustness", "fairness", "computed_on")
_NOT_OF_DOMAIN: Final = ("model", "model_deployment", "method")
_ARTICLES: Final = re.compile(r"\b(a|an|the)\b")
_CLOSE: Final = 1e-9
_TEST: Final = "test"
_ALL: Final = "all"


class Helm(Source):
    """Runs of HELM."""

    title = "HELM"
    reads = "the folder of a run"

    def recognises(self, start: Start) -> bool:
        """A folder with a scenario state, or a JSON object that begins as one."""
        if start.path.is_dir():
            return (start.path / _STATE).exists()
        content = start.content.lstrip()
        return content.startswith(b"{") and all(key in content for key in _KEYS)

    def open(self, path: Path, options: ImportOptions) -> Log:
        """Open a run.

        Raises:
            InputError: it cannot be read, or is not of joint multiple choice.
        """
        log = _Log(path / _STATE if path.is_dir() else path, options)
        return Log(log.rows(), log.files, log.facts, named=log.files[0])


SOURCE: Final = Helm()
"""The entry of the registry."""


Key = tuple[str, str, int]
"""Id of a question, what was changed in it ("" for the original), and the trial, from 0."""


def _key(instance: Any, perturbation: Any, trial: Any) -> Key:
    """Return HELM's own key of a request.

    Raises:
        ValueError: the trial is not an integer.
    """
    if trial is not None and (not isinstance(trial, int) or isinstance(trial, bool)):
        raise ValueError(f"train_trial_index: expected an integer, got {describe(trial)}")
    return str(instance), _perturbation(as_dict(perturbation)), trial or 0


class _Log:
    """A run: its rows, and what it says of itself."""

    def __init__(self, file: Path, options: ImportOptions) -> None:
        self._file = file
        self._grouping = options.grouping
        state = read_large_json(file)
        self._adapter = as_dict(state.get("adapter_spec"))
        method = self._adapter.get("method")
        if method not in _JOINT:
            raise InputError(
                f"{file}: expected the method {' or '.join(_JOINT)}, got {method!r:.60}: other "
                "methods have no letters to choose from"
            )
        self._pattern = _pattern(self._adapter.get("output_mapping_pattern"), file)
        request_states = state.get("request_states")
        self._states: Sequence[Any] = request_states if isinstance(request_states, list) else []
        self._spec = as_dict(self._next(_RUN))
        self._name = str(self._spec.get("name") or file.parent.name)
        self._domain = _without_model(self._name)
        self._statistics = [*map(as_dict, self._next(_STATS) or ())]
        self._metric, self._counted = self._outcomes()
        self._groups = Counter(
            _group(as_dict(as_dict(entry).get("instance"))) for entry in self._states
        )
        self._read = self._chosen(options.filter)
        self._right: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._trials = 1
        self._unverified = 0

    @property
    def files(self) -> tuple[Path, ...]:
        """The state, and the statistics that it was compared with."""
        beside = (self._file.with_name(name) for name in (_STATS_OF_ITEMS, _STATS, _RUN))
        return (self._file, *(companion for companion in beside if companion.exists()))

    def _chosen(self, group: str | None) -> frozenset[str]:
        """Return the splits and perturbations that are read.

        Raises:
            InputError: there is no such group, or the user has to choose.
        """
        if group == _ALL or not self._groups:
            return frozenset(self._groups)
        originals = [name for name in self._groups if "/" not in name] or [*self._groups]
        default = _TEST if _TEST in originals else originals[0]
        sole = default == _TEST or len(originals) == 1
        chosen = group or (default if sole else "")
        if chosen not in self._groups:
            groups = ", ".join(f"{name} ({n:,})" for name, n in self._groups.items())
            fault = f"--filter {group}: not in the log" if group else "several splits"
            raise InputError(
                f"{self._file}: {fault}; its requests are of {groups}: give --filter "
                f"{originals[0]}, or --filter {_ALL}"
            )
        return frozenset({chosen})

    def _next(self, name: str) -> Any:
        path = self._file.with_name(name)
        return read_large_json(path, list if name != _RUN else dict) if path.exists() else None

    def _outcomes(self) -> tuple[str | None, dict[Key, float]]:
        """Return the metric that says what counts as right, and its value for every request."""
        by_metric: dict[str, dict[Key, float]] = {}
        for number, entry in enumerate(map(as_dict, self._next(_STATS_OF_ITEMS) or ())):
            trial = entry.get("train_trial_index")
            try:
                key = _key(entry.get("instance_id"), entry.get("perturbation"), trial)
                statistics = [*map(as_dict, as_list(entry.get("stats"), "stats"))]
            except ValueError as error:
                path = self._file.with_name(_STATS_OF_ITEMS)
                raise InputError(f"{path}: entry {number}: {error}") from None
            for statistic in statistics:
                name, mean = at(statistic, "name", "name"), statistic.get("mean")
                if name in _METRICS and isinstance(mean, int | float):
                    by_metric.setdefault(str(name), {})[key] = float(mean)
        stated = {at(statistic, "name", "name") for statistic in self._statistics}
        metric = next((name for name in _METRICS if name in (by_metric or stated)), None)
        return metric, by_metric.get(metric, {}) if metric else {}

    def rows(self) -> Iterator[LogRow | Problem]:
        """Yield a row per request."""
        for number, entry in enumerate(map(as_dict, self._states)):
            instance = as_dict(entry.get("instance"))
            if _group(instance) not in self._read:
                continue
            name, trial = f"request {number}", entry.get("train_trial_index")
            try:
                key = _key(instance.get("id", number), instance.get("perturbation"), trial)
                name = f"instance {', '.join(filter(None, key[:2]))}, trial {key[2]}"
                row = self._row(key, instance, entry)
            except ValueError as error:
                yield Problem(None, name, str(error))
                continue
            self._trials = max(self._trials, key[2] + 1)
            yield LogRow(None, name, row)

    def _row(self, key: Key, instance: dict[str, Any], entry: Mapping[str, Any]) -> dict[str, Json]:
        """Read one request.

        Raises:
            ValueError: it is not of joint multiple choice, or HELM counts what is no answer.
        """
        mapping = {str(k): str(v) for k, v in as_dict(entry.get("output_mapping")).items()}
        if len(mapping) < 2:
            raise ValueError("output_mapping: expected a text for each letter, got fewer than two")
        texts = [*mapping.values()]
        order = by_text(texts)
        right = sorted({order[at] for at in self._right_places(instance, texts)})
        if not right:
            raise ValueError("references: expected one that is tagged as correct, got none")
        row: dict[str, Json] = {
            "id": f"{self._domain}:{'/'.join(filter(None, key[:2]))}",
            "family": f"{self._domain}:{key[0]}",
            "domain": self._domain,
            "reference": right[0] if len(right) == 1 else [*right],
            "view": key[2],
            "n_choices": len(texts),
            **self._grouping.of_entry({**instance, "request": entry.get("request")}),
        }
        counted = self._counted.get(key)
        group = _group(instance)
        self._all[group] += 1
        answer, status, reason = self._answer(entry, mapping)
        if answer is None:
            if counted:
                raise ValueError(
                    f"the log counts this answer as right; read as no answer ({reason})"
                )
            return row | {"status": status, "reason": reason}
        self._right[group] += order[answer] in right
        correct = None if counted is None else counted == 1
        self._unverified += correct is None
        return row | {"code_order": [*order], "answer": order[answer], "correct": correct}

    def _right_places(self, instance: Mapping[str, Any], texts: Sequence[str]) -> list[int]:
        """Return the places of choices that match a correct reference, as HELM matches them."""
        same = _normalise if self._metric == "quasi_exact_match" else str.strip
        correct = {
            same(str(at(candidate, "output", "text")))
            for candidate in map(as_dict, as_list(instance.get("references"), "references"))
            if _CORRECT in as_list(candidate.get("tags"), "tags")
        }
        return [at for at, text in enumerate(texts) if same(text) in correct]

    def _answer(
        self, entry: Mapping[str, Any], mapping: Mapping[str, str]
    ) -> tuple[int | None, str, str]:
        """Return the place of the chosen letter; without one, the status and the reason."""
        result = as_dict(entry.get("result"))
        completions = [*map(as_dict, as_list(result.get("completions"), "completions"))]
        if not completions or result.get("success") is False:
            return None, "failed", str(result.get("error") or "no completion")[:200]
        best = max(completions, key=_logprob)
        text = str(best.get("text") or "").strip()
        if self._pattern is not None:
            matched = self._pattern.search(text)
            text = "" if matched is None else str(matched[min(1, matched.re.groups)] or "")
        if text in mapping:
            return [*mapping].index(text), "", ""
        status = "failed" if text else "missing"
        return None, status, f"not one of {', '.join(mapping)}: {text!r:.60}" if text else "empty"

    def facts(self) -> LogFacts:
        """Return provenance; compare our accuracies with those of the statistics."""
        kept = ("method", "max_train_instances", "num_outputs", "temperature", "instructions")
        block: dict[str, Json] = {"run": self._name, "metric": self._metric}
        block |= {name: self._adapter[name] for name in kept if name in self._adapter}
        for name in ("scenario_spec", "groups", "data_augmenter_spec"):
            if self._spec.get(name):
                block[name] = self._spec[name]
        if self._trials > 1:
            block["views"] = TRIALS
        remarks = []
        others = [f"{name} ({n:,})" for name, n in self._groups.items() if name not in self._read]
        if others:
            block["group"] = ", ".join(sorted(self._read))
            remarks.append(
                f"Read: the {self._all.total():,} requests of {block['group']}. Not read: "
                f"{', '.join(others)}; choose one with --filter, or --filter {_ALL}."
            )
        if self._unverified:
            block["unverified"] = self._unverified
        if self._metric is None:
            remarks.append(f"No statistics of {_METRICS[0]}: right and wrong not verified.")
        model = self._adapter.get("model")
        facts = json.loads(json.dumps(block))
        model_name = model if isinstance(model, str) else None
        return LogFacts(facts, model_name, tuple(remarks), tuple(self._contradictions()))

    def _contradictions(self) -> Iterator[Problem]:
        """Yield the accuracies that differ; unanswered requests are wrong there."""
        for statistic in self._statistics:
            name = as_dict(statistic.get("name"))
            changed = as_dict(name.get("perturbation"))
            if name.get("name") != self._metric or name.get("sub_split"):
                continue
            if changed and changed.get("computed_on") != "perturbed":
                continue
            group = _group({"split": name.get("split"), "perturbation": changed})
            logged, n_instances = statistic.get("mean"), self._all[group]
            if not isinstance(logged, int | float) or not n_instances:
                continue
            ours = self._right[group] / n_instances
            if abs(ours - logged) > _CLOSE:
                message = f"{group}: accuracy is {ours:.6f}, that of {_STATS} {logged:.6f}"
                yield Problem(None, None, message)


def _without_model(run: str) -> str:
    """Return the name of a run without its model: of other models, it is the same.

    Examples:
        >>> _without_model("mmlu:subject=law,model=ours"), _without_model("tiny")
        ('mmlu:subject=law', 'tiny')
    """
    scenario, colon, arguments = run.partition(":")
    kept = [
        argument
        for argument in arguments.split(",")
        if argument and argument.partition("=")[0] not in _NOT_OF_DOMAIN
    ]
    return scenario + (colon + ",".join(kept) if kept else "")


def _group(of: Mapping[str, Any]) -> str:
    """Return the split and the perturbation of a request or a statistic.

    Examples:
        >>> _group({"split": "test"}), _group({"split": "test", "perturbation": {"name": "typos"}})
        ('test', 'test/typos')
    """
    changed = _perturbation(as_dict(of.get("perturbation")))
    split = str(of.get("split") or "all requests")
    return f"{split}/{changed}" if changed else split


def _logprob(completion: Mapping[str, Any]) -> float:
    """Return the log-probability of a completion; 0 without one.

    Raises:
        ValueError: it is not a number.
    """
    value = completion.get("logprob") or 0.0
    if not isinstance(value, int | float):
        raise ValueError(f"logprob: expected a number, got {describe(value)}")
    return float(value)


def _pattern(pattern: Any, file: Path) -> re.Pattern[str] | None:
    """Return what finds the letter in a completion, if the run has a pattern for it.

    Raises:
        InputError: it is not a regular expression.
    """
    try:
        return re.compile(pattern) if isinstance(pattern, str) else None
    except re.error as error:
        raise InputError(
            f"{file}: output_mapping_pattern: not a regular expression ({error})"
        ) from None


def _perturbation(described: Mapping[str, Any]) -> str:
    """Return the name of a perturbation, with its settings.

    Examples:
        >>> _perturbation({"name": "typos", "robustness": True, "prob": 0.1})
        'typos(prob=0.1)'
    """
    settings = ", ".join(
        f"{name}={described[name]}" for name in sorted(described) if name not in _ABOUT_PERTURBATION
    )
    name = str(described.get("name", ""))
    return f"{name}({settings})" if settings else name


def _normalise(text: str) -> str:
    """Return a text as `quasi_exact_match` compares it.

    Examples:
        >>> _normalise("The  Moon!")
        'moon'
    """
    without = "".join(
        character for character in text.lower() if character not in string.punctuation
    )
    return " ".join(_ARTICLES.sub(" ", without).split())
