"""Score a dataset with a local model: one pass of its engine per window of records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from pact_eval._json import Json
from pact_eval.data.records import Record
from pact_eval.errors import PromptError, RunError
from pact_eval.models import AdapterFiles, read_json_object
from pact_eval.progress import step
from pact_eval.prompts.encoding import EncodedView, other_letters
from pact_eval.runs.custody import Custody
from pact_eval.runs.folder import RunWriter
from pact_eval.runs.provenance import AutoDtype, RunLabels, RunNames
from pact_eval.runs.rows import ABLATED_SCHEMA, SCHEMA
from pact_eval.scoring.cpu import HeadShape, fastest_kernel
from pact_eval.scoring.engine import ScoredView
from pact_eval.scoring.model import LoadedModel, ScoringModel
from pact_eval.scoring.request import KernelName
from pact_eval.scoring.scorer import is_out_of_memory, one_by_one, release_memory, sample_views
from pact_eval.scoring.shared_prefix_attention import DEFAULT_KERNEL, KERNELS
from pact_eval.scoring.windows import (
    Dataset,
    OnAnswer,
    ScoredWindow,
    ViewTokenCounter,
    Window,
    in_order,
    record_columns,
    score_windows,
)

PROOF_RECORDS: Final = 4
"""The engine is chosen and checked with this many records, from the start of the file."""


def score(
    model: ScoringModel,
    dataset: Dataset,
    out: Path,
    *,
    labels: RunLabels,
    allow: Collection[str] = (),
) -> Custody:
    """Score every view of a dataset into a run folder, or resume one; see `score_windows`.

    Args:
        model: the model.
        dataset: the records and their views.
        out: the run folder.
        labels: values that do not affect any number: arm, seed, command line.
        allow: as for `score_windows`.

    Returns:
        What is known of the training data.

    Raises:
        GateError: the adapter was trained or selected on evaluated families.
        PromptError: a prompt is over the limit; nothing was scored.
        AdapterError: the model cannot be loaded, or the adapter changes nothing.
        RunError: the folder cannot be used, or has a run with other settings.
    """
    return score_windows(LocalSource(model), dataset, out, labels=labels, allow=allow)


@dataclass(frozen=True)
class ModelSource:
    """A model as what answers the records of a run; see `Backend`.

    Attributes:
        model: the model, identified here, and loaded only if a window is missing.
    """

    model: ScoringModel

    @property
    def adapter(self) -> AdapterFiles | None:
        """The adapter; None for a base model alone."""
        return self.model.adapter

    @property
    def settings(self) -> Mapping[str, Json]:
        """The settings that identify the model, for one process or any number of workers."""
        return self.model.settings

    @property
    def names(self) -> RunNames:
        """The folders of adapter and base model, and of a decision template."""
        adapter = self.model.adapter
        names: RunNames = {
            "adapter": None if adapter is None else str(adapter.folder),
            "base_model": self.model.base.label,
        }
        place = self.model.contract.place
        return names if place is None else {**names, "contract_files": place}

    def check(self, dataset: Dataset) -> Mapping[str, Json]:
        """Check the length of every prompt, and count tokens by number of views.

        Raises:
            PromptError: a prompt is over the limit.
        """
        encoder, tokens = self.model.encoder, ViewTokenCounter(dataset.k)
        try:
            longest = encoder.check_lengths(
                dataset.records, dataset.k, dataset.order_seed, tokens.add
            )
        except PromptError as error:
            raise PromptError(f"{dataset.path}: {error}") from None
        return {"longest_prompt_tokens": longest, "view_tokens": tokens.counts.to_json()}


@dataclass(frozen=True)
class LocalSource(ModelSource):
    """A model that this process loads.

    Attributes:
        kernel: the kernel of attention that a run has chosen; None chooses one.
    """

    kernel: KernelName | None = None

    @contextmanager
    def open(self, dataset: Dataset, writer: RunWriter | None = None) -> Iterator[LocalScorer]:
        """Load the model, choose kernel and engine, and check that the adapter has an effect.

        Raises:
            AdapterError: the model cannot be loaded, or the adapter changes nothing.
            RunError: the run has recorded a kernel that does not exist.
        """
        exact = None if writer is None else float32_scores(self.model, dataset, writer)
        with step("Loading the model"):
            loaded = self.model.load()
            if writer is not None and exact is not None:
                writer.note({"auto_dtype": exact.compare(lambda: loaded).to_json()})
            loaded.scorer.kernel = self.kernel or kernel_of_run(self.model, dataset, writer)
        with step("Checking the engine"):
            scorer = LocalScorer(loaded, dataset)
        yield scorer


def kernel_of_run(
    model: ScoringModel, dataset: Dataset, writer: RunWriter | None = None
) -> KernelName:
    """Return the kernel of attention of a run, and note it in its `run.json`.

    It is the requested one, or the one that the run has recorded, or else the faster one of a probe
    here. A run of a version that recorded none has the default.

    Args:
        model: the model.
        dataset: K and the orders, and the records; only the first of them are read.
        writer: the run; None if there is none.

    Raises:
        RunError: the run has recorded a kernel that does not exist.
    """
    recorded = None if writer is None else writer.recorded.engine.attention_kernel
    if writer is not None and recorded not in (None, *KERNELS):
        raise RunError(
            f"{writer.folder}: run.json: engine.attention_kernel: expected {' or '.join(KERNELS)}, "
            f"found {recorded!r}"
        )
    if model.attention != "auto":
        kernel = model.attention
    elif recorded is not None:
        kernel = cast("KernelName", recorded)
    elif model.device.type != "cpu" or (writer is not None and writer.begun):
        kernel = DEFAULT_KERNEL
    else:
        proof = dataset.records[:PROOF_RECORDS]
        views = model.encoder.encode(proof, dataset.k, dataset.order_seed)
        config = read_json_object(model.base.folder / "config.json")
        kernel = fastest_kernel(HeadShape.of(config), views, model.dtype)
    if writer is not None:
        # Before the first part: a resumed run then scores the other parts with the same kernel.
        writer.note({"engine": {"attention_kernel": kernel}})
    return kernel


@dataclass(frozen=True)
class Float32Scores:
    """Scores of a few views in float32, to say what another precision changes.

    Attributes:
        why: why the other precision was taken.
        views: the views that are scored.
        scores: their scores; empty if the precision is float32, or if memory ran out.
    """

    why: str
    views: Sequence[EncodedView]
    scores: Sequence[ScoredView]

    def compare(self, load: Callable[[], LoadedModel]) -> AutoDtype:
        """Return the record of the precision of the model that `load` returns."""
        if not self.scores:
            return AutoDtype(self.why)
        pairs = [*zip(self.scores, one_by_one(load().model, self.views), strict=True)]
        changes = [_log_probabilities(here) - _log_probabilities(exact) for exact, here in pairs]
        return AutoDtype(
            self.why,
            views=len(pairs),
            largest_log_probability_difference=float(max(abs(one).max() for one in changes)),
            flips=sum(int(a.logits.argmax() != b.logits.argmax()) for a, b in pairs),
        )


def _log_probabilities(view: ScoredView) -> npt.NDArray[np.float64]:
    logits = view.logits.astype(np.float64)
    return np.subtract(logits, np.logaddexp.reduce(logits))


def float32_scores(
    model: ScoringModel, dataset: Dataset, writer: RunWriter
) -> Float32Scores | None:
    """Score the checked views in float32, if auto took a precision that the run does not record.

    Args:
        model: the model.
        dataset: K and the orders, and the records; only the first of them are read.
        writer: the run.
    """
    if model.why_dtype is None or writer.recorded.auto_dtype is not None:
        return None
    if model.dtype == torch.float32:
        return Float32Scores(model.why_dtype, (), ())
    records = dataset.records[:PROOF_RECORDS]
    proof = sample_views(model.encoder.encode(records, dataset.k, dataset.order_seed))
    with step("Comparing with float32"):
        try:
            scores = one_by_one(replace(model, dtype=torch.float32).load().model, proof)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            scores = []
    release_memory()
    return Float32Scores(model.why_dtype, proof, scores)


_RARELY: Final = 0.5
"""Below this answer mass, the letters are tried with a space in front, or without it."""

_WORTH_NAMING: Final = 0.01
"""Answer mass of that form from which it is named: a random model prefers one form by chance."""


def _other_letters(loaded: LoadedModel, views: Sequence[EncodedView]) -> dict[str, Json]:
    """Return the answer mass of the letters in their other form, if it is higher."""
    tokenizer: Any = loaded.source.encoder.tokenizer
    forms = [other_letters(tokenizer, view.code_tokens) for view in views]
    others = [
        replace(view, code_tokens=form)
        for view, form in zip(views, forms, strict=True)
        if form is not None
    ]
    scored = one_by_one(loaded.model, others)
    mass = sum(view.answer_mass for view in scored) / max(1, len(scored))
    better = mass > max(_WORTH_NAMING, 2 * loaded.scorer.plain_mass)
    if not better:
        return {}
    piece = tokenizer.convert_ids_to_tokens(others[0].code_tokens[0])
    return {"other_letters": {"first": " A" if len(piece) > 1 else "A", "mass": mass}}


class LocalScorer:
    """Scores windows with a loaded model; see `WindowScorer`.

    Args:
        loaded: the model, with its weights in memory.
        dataset: K and the orders, and the records; only the first of them are read here.

    Raises:
        AdapterError: no engine works, or the adapter changes nothing.
    """

    def __init__(self, loaded: LoadedModel, dataset: Dataset) -> None:
        self._loaded = loaded
        self._dataset = dataset
        self._facts: dict[str, Json] = {"attention": loaded.attention}
        # Always with the first records: a resumed run then chooses the same engine.
        proof = self._encode(dataset.records[:PROOF_RECORDS])
        loaded.scorer.prepare(proof)
        if loaded.source.adapter is not None:
            self._facts["adapter_largest_logit_change"] = loaded.scorer.check_adapter_effect(proof)
            if loaded.source.merge:
                self._facts["merge_drift"] = loaded.scorer.merge_adapter(proof)
        if loaded.scorer.plain_mass < _RARELY:
            self._facts |= _other_letters(loaded, proof[:: dataset.k])
        loaded.scorer.reset_counts()

    @property
    def facts(self) -> Mapping[str, Json]:
        """Attention, effect of the adapter, and engine."""
        return {**self._facts, "engine": self._loaded.scorer.facts}

    def score(
        self, windows: Sequence[Window], on_views: Callable[[int], None], on_answer: OnAnswer
    ) -> Iterator[ScoredWindow]:
        """Score the views of windows, one after the other."""
        return in_order(windows, lambda records: self.rows(records, on_views, on_answer))

    def rows(
        self,
        window: Sequence[Record],
        on_views: Callable[[int], None] = lambda _views: None,
        on_answer: OnAnswer = lambda _record, _logits, _mass: None,
    ) -> pl.DataFrame:
        """Score the views of the records of one window; what was scored before has no effect."""
        by_id = {record.id: record for record in window}
        scorer = self._loaded.scorer

        def on_scored(batch: Sequence[EncodedView], scores: Sequence[ScoredView]) -> None:
            for view, result in zip(batch, scores, strict=True):
                if view.view == 0:
                    on_answer(by_id[view.record_id], result.logits.tolist(), result.answer_mass)

        scorer.start_window()
        views = self._encode(window)
        return _rows(window, views, scorer.score(views, on_views, on_scored))

    def completed(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows as they are."""
        return rows

    def reset_counts(self) -> None:
        """Set the token counts among the facts to zero."""
        self._loaded.scorer.reset_counts()

    def _encode(self, records: Sequence[Record]) -> list[EncodedView]:
        k, seed = self._dataset.k, self._dataset.order_seed
        return self._loaded.source.encoder.encode(records, k, seed)


def _rows(
    records: Sequence[Record], views: Sequence[EncodedView], scored: Sequence[ScoredView]
) -> pl.DataFrame:
    by_id = {record.id: record for record in records}
    rows = [
        {
            **record_columns(by_id[view.record_id]),
            "view": view.view,
            "code_order": list(view.code_order),
            "logits": result.logits.tolist(),
            "prompt_tokens": len(view.token_ids),
            "answer_mass": result.answer_mass,
        }
        for view, result in zip(views, scored, strict=True)
    ]
    ablated = any(record.ablation is not None for record in records)
    return pl.DataFrame(rows, schema=ABLATED_SCHEMA if ablated else SCHEMA)
