"""Results of lm-evaluation-harness, compared with our reading of the samples of a task.

`results_<date>.json` has the metrics of every task, the number of its documents, and a hash of its
samples. What a task computes with a function of its own cannot be repeated, and is not compared.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pact_eval._json import Json
from pact_eval.importing.harness_lines import METRICS, Line
from pact_eval.importing.source import as_dict

_CLOSE: Final = 1e-9
_OWN_AGGREGATIONS: Final = {
    **dict.fromkeys((*METRICS, "exact_match"), "mean"),
    "f1": "f1",
    "mcc": "matthews_corrcoef",
    "brier_score": "brier_score",
}
_DROPS_DELIMITER: Final = (0, 4, 6)
_KEEPS_WITH_PREFIX: Final = (0, 4, 10)
_OF_RUN: Final = (
    *("model_name", "model_source", "chat_template_sha", "system_instruction_sha", "git_hash"),
    *("lm_eval_version", "transformers_version", "date"),
)
_OF_MODEL: Final = (
    *("model", "model_args", "model_sha", "model_revision", "model_dtype", "peft_sha"),
)
_OF_TASK: Final = ("n-shot", "versions", "task_hashes")


def delimiters_of(results: Mapping[str, Any] | None, task: str) -> tuple[str, ...]:
    """Return what may be between a prompt and a choice; one value if the results say it.

    A chat template drops the delimiter of the task from version 0.4.6 on. From 0.4.10 on, one
    stays after a `gen_prefix` that does not end with a space.

    Examples:
        >>> plain = {"lm_eval_version": "0.4.9", "configs": {"arc": {"target_delimiter": " "}}}
        >>> delimiters_of(plain, "arc"), delimiters_of(plain | {"chat_template": "{{ x }}"}, "arc")
        ((' ',), ('',))
        >>> delimiters_of(None, "arc")
        (' ', '')
    """
    facts = results or {}
    config = as_dict(as_dict(facts.get("configs")).get(task))
    delimiter, version = config.get("target_delimiter"), _version(facts.get("lm_eval_version"))
    chat = facts.get("chat_template") or facts.get("chat_template_sha")
    prefix = config.get("gen_prefix")
    if chat and version >= _DROPS_DELIMITER:
        ends_open = isinstance(prefix, str) and bool(prefix[-1:].strip())
        if not (ends_open and version >= _KEEPS_WITH_PREFIX):
            return ("",)
    if isinstance(delimiter, str) and (not chat or version):
        return (delimiter,)
    return (" ", "")


def contradictions(
    results: Mapping[str, Any],
    task: str,
    filter_name: str,
    scored: Sequence[tuple[Line, tuple[int, ...]]],
    delimiter: str,
) -> Iterator[str]:
    """Yield where the results do not fit the samples of a task.

    Args:
        results: what `results_<date>.json` says.
        task: its name there.
        filter_name: the filter that was read.
        scored: lines, with their right answers.
        delimiter: what is between a prompt and a choice.
    """
    published = as_dict(as_dict(results.get("results")).get(task))
    for metric, aggregation in _OWN_AGGREGATIONS.items():
        logged = published.get(f"{metric},{filter_name}", published.get(metric))
        if not isinstance(logged, int | float) or _aggregation(results, task, metric) not in (
            None,
            aggregation,
        ):
            continue
        ours = _value(metric, scored, delimiter)
        if ours is not None and abs(ours - logged) > _CLOSE:
            what = "accuracy" if metric == "acc" else metric
            yield f"{what} is {ours:.6f}, that of the results {logged:.6f}"


def sample_hash(lines: Sequence[Line]) -> str | None:
    """Return the hash that the results have of the samples of a task; None if lines lack hashes."""
    if not all(line.hashes for line in lines):
        return None
    return hashlib.sha256("".join(line.hashes for line in lines).encode()).hexdigest()


def documents_of(results: Mapping[str, Any] | None, task: str) -> tuple[int, int] | None:
    """Return how many documents a task has, and how many were asked; None if it is not known."""
    counts = as_dict(as_dict((results or {}).get("n-samples")).get(task))
    original, asked = counts.get("original"), counts.get("effective")
    if not isinstance(original, int) or not isinstance(asked, int) or not asked:
        return None  # without metrics, 0 are counted
    return original, asked


def asked_of(results: Mapping[str, Any], task: str) -> float | None:
    """Return the largest number of documents that were asked; None if it is not known."""
    counts = documents_of(results, task)
    limit = as_dict(results.get("config")).get("limit")
    if counts is not None:
        return counts[1]
    return limit if isinstance(limit, int | float) and limit >= 1 else None


def provenance_of(results: Mapping[str, Any], tasks: Sequence[str]) -> dict[str, Json]:
    """Return what the results say of the run, the model and the tasks that are read."""
    block: dict[str, Any] = {
        name: results[name] for name in _OF_RUN if results.get(name) is not None
    }
    template = results.get("chat_template")
    if isinstance(template, str) and template:
        block.setdefault("chat_template_sha", hashlib.sha256(template.encode()).hexdigest())
    for name in _OF_TASK:
        by_task = as_dict(results.get(name))
        if kept := {task: by_task[task] for task in tasks if task in by_task}:
            block[name] = kept
    config = as_dict(results.get("config"))
    if config:
        block["config"] = {name: config[name] for name in _OF_MODEL if config.get(name)}
    return block


def _version(value: Json) -> tuple[int, ...]:
    """Return a version as numbers; none if it is not known.

    Examples:
        >>> _version("0.4.9.2"), _version("0.5.0.dev1"), _version(None)
        ((0, 4, 9), (0, 5, 0), ())
    """
    return tuple(int(part) for part in str(value or "").split(".")[:3] if part.isdecimal())


def _aggregation(results: Mapping[str, Any], task: str, metric: str) -> Json:
    """Return how a task aggregates a metric, as far as its results say."""
    listed = as_dict(as_dict(results.get("configs")).get(task)).get("metric_list")
    entries = map(as_dict, listed if isinstance(listed, list) else [])
    return next(
        (entry.get("aggregation") for entry in entries if entry.get("metric") == metric), None
    )


def _value(
    metric: str, scored: Sequence[tuple[Line, tuple[int, ...]]], delimiter: str
) -> float | None:
    """Return a metric by our reading; None if a line lacks it, or it cannot be computed."""
    if any(line.values.get(metric) is None for line, _ in scored):
        return None
    if metric == "exact_match":
        return _mean([any(line.greedy[at] for at in right) for line, right in scored])
    if known := [name for name in METRICS if name == metric]:
        answers = [line.answer(known[0], delimiter) for line, _ in scored]
        right_answers = [right for _, right in scored]
        if None in answers:
            return None
        return _mean([a in right for a, right in zip(answers, right_answers, strict=True)])
    if any(len(right) > 1 for _, right in scored):
        return None
    pairs = [(right[0], line.answer("acc", delimiter) or 0) for line, right in scored]
    if metric == "f1":
        return _f1(pairs)
    return _mcc(pairs) if metric == "mcc" else _brier(scored)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _f1(pairs: Sequence[tuple[int, int]]) -> float | None:
    """Return F1 of answer 1, as scikit-learn does for two answers; None for more answers."""
    if any(max(pair) > 1 for pair in pairs):
        return None
    positives = sum(right + answer for right, answer in pairs)
    return 2 * sum(right * answer for right, answer in pairs) / positives if positives else None


def _mcc(pairs: Sequence[tuple[int, int]]) -> float:
    """Return Matthews' correlation of several classes (Gorodkin 2004); 0 for a constant."""
    n = len(pairs)
    right, answers = Counter(pair[0] for pair in pairs), Counter(pair[1] for pair in pairs)
    covariance = n * sum(a == b for a, b in pairs) - sum(right[c] * answers[c] for c in right)
    spread = math.prod(n * n - sum(c * c for c in each.values()) for each in (right, answers))
    return covariance / math.sqrt(spread) if spread else 0.0


def _brier(scored: Sequence[tuple[Line, tuple[int, ...]]]) -> float:
    """Return the mean squared distance of the probabilities from the right answer."""
    distances = []
    for line, right in scored:
        largest = max(line.log_likelihoods)
        weights = [math.exp(value - largest) for value in line.log_likelihoods]
        shares = [weight / math.fsum(weights) for weight in weights]
        distances.append(math.fsum((p - (at in right)) ** 2 for at, p in enumerate(shares)))
    return _mean(distances)
