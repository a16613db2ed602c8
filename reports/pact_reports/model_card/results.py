"""Evaluation results of a run as the metadata of a model card, as the Hugging Face Hub reads it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pact_eval._json import Json, dumps
from pact_eval.evaluation.conclusions.data import leak_prefix
from pact_eval.evaluation.experiment import RunReport
from pact_eval.evaluation.metric_specs import MetricSpec
from pact_eval.evaluation.registry import registered_metrics
from pact_eval.runs.places import url_of
from pact_eval.runs.provenance import Provenance
from pact_eval.runs.seal import seal_digest
from pact_eval.stats.estimate import LEVEL, Estimate
from pact_reports.model_card.libraries import EvalResult, ModelCardData

_TASK: Final = ("text-classification", "Typed decisions")
_UNNAMED: Final = "unnamed"
_KEY_DIGITS: Final = 12


@dataclass(frozen=True)
class CardDataset:
    """The data of a run, as a model card names it.

    Attributes:
        id: `owner/name` on the Hub, or the name of the file without its ending.
        name: name of the file.
        revision: commit on the Hub, or the SHA-256 of the file.

    Examples:
        >>> CardDataset("holdout", "holdout.jsonl", "0" * 64).key
        '97e53feac9ef'
    """

    id: str
    name: str
    revision: str

    @classmethod
    def of(cls, provenance: Provenance) -> CardDataset:
        """Return the data of a run.

        A run without a hash of its data is named by the hash of its items and references.
        """
        seal, sha256 = provenance.seal, provenance.data.sha256
        revision = sha256 or ("" if seal is None else seal.references_sha256)
        place = Path(provenance.data_file or _UNNAMED)
        url = url_of(place)
        if url is not None and url.startswith("hf://datasets/"):
            _, owner, repository, *path = url.removeprefix("hf://").split("/")
            name, _, commit = repository.partition("@")
            return cls(f"{owner}/{name}", "/".join(path) or name, commit or revision)
        return cls(place.stem, place.name, revision)

    @property
    def key(self) -> str:
        """Twelve hex digits that identify the data."""
        text = dumps([self.id, self.name, self.revision])
        return hashlib.sha256(text.encode()).hexdigest()[:_KEY_DIGITS]

    def is_of(self, result: Any) -> bool:
        """Return whether an entry of a card has our results on this data.

        Args:
            result: of the metadata of a card, of any shape.
        """
        dataset = result.get("dataset") if isinstance(result, dict) else None
        if not isinstance(dataset, dict) or not isinstance(dataset.get("args"), dict):
            return False
        named = [dataset.get(name) for name in ("type", "name", "revision")]
        return "seal" in dataset["args"] and named == [self.id, self.name, self.revision]


def card_metrics(report: RunReport) -> tuple[MetricSpec, ...]:
    """Return the metrics of a card: those of the tables of main results and of every run."""
    shown = {*registered_metrics("full", "main results"), *registered_metrics("full", "every run")}
    return tuple(spec for spec in report.evaluation.metrics if spec in shown)


def result_of(report: RunReport, dataset: CardDataset, model: str) -> dict[str, Json]:
    """Return the entry of a model card with the results of a run.

    Rates are fractions, NLL is in nats. Metrics that are undefined or infinite are left out: the
    Hub reads finite numbers. `args` has the interval, and the seal of the run. The name of a metric
    on leaking data begins with the leak.

    Args:
        report: on a run on full contexts.
        dataset: its data.
        model: name of the model.
    """
    card: Any = ModelCardData(model_name=model, eval_results=[*_results(report, dataset)])
    (index,) = card.to_dict()["model-index"]
    (result,) = index["results"]
    return dict(result)


def _results(report: RunReport, dataset: CardDataset) -> Iterator[EvalResult]:
    leak = leak_prefix(report.experiment.data.leak)
    seal = report.run.provenance.seal
    sealed = {
        "seal": None if seal is None else seal_digest(seal),
        "report": report.digest.sha256,
    }
    everything = report.evaluation.groups[0].estimates
    for spec in card_metrics(report):
        estimate = everything[spec.name]
        if math.isfinite(estimate.value):
            yield EvalResult(
                task_type=_TASK[0],
                task_name=_TASK[1],
                dataset_type=dataset.id,
                dataset_name=dataset.name,
                dataset_revision=dataset.revision,
                dataset_args=sealed,
                metric_type=spec.name,
                metric_name=f"{leak}{spec.title}",
                metric_value=estimate.value,
                metric_args={**_decoding(report), **_interval(estimate)},
            )


def _decoding(report: RunReport) -> Mapping[str, Json]:
    evaluation = report.evaluation
    return {
        "decoding": evaluation.decoding_name,
        "calibration": evaluation.calibration,
        "k": evaluation.k,
    }


def _interval(estimate: Estimate) -> Mapping[str, Json]:
    """Return the interval, without what is unknown."""
    ends: dict[str, Json] = {
        name: end
        for name, end in (("low", estimate.low), ("high", estimate.high))
        if math.isfinite(end)
    }
    if ends:
        ends["confidence"] = 1 - LEVEL
    return {**ends, "items": estimate.n, "clusters": estimate.clusters}
