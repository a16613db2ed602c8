"""Batching by family: group views by family, and make batches that never split a family.

The counterfactual margin needs both members of a pair in one forward pass. The consistency term
needs both letter orders of a record. The unit of batching is therefore a family with all its views.
An unpaired record is a family of its own.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final

from torch.utils.data import Sampler

from pact_losses.errors import FamilyError
from pact_losses.views import TrainingView

_FAULTS_SHOWN: Final = 20
_VARIANTS: Final = ("base", "counterfactual")


@dataclass(frozen=True, slots=True)
class Family:
    """The two members of a contrastive pair, or an unpaired record, with all of their views.

    Attributes:
        key: the `family` of its views.
        rows: indices of its views, ascending.
        longest: tokens of its longest prompt.
    """

    key: Hashable
    rows: tuple[int, ...]
    longest: int


def group_families(views: Sequence[TrainingView]) -> list[Family]:
    """Group views by family and check that every family is complete.

    Args:
        views: the views in any order.

    Returns:
        The families, in the order in which the first view of each appears.

    Raises:
        FamilyError: a family has only one member and does not say that it is unpaired, members of
            different kinds or with different answers or letters, members with the same reference,
            two primary views of one member, a permuted view without its primary view, an ablated
            view whose answers are not the references of the pair, or an unpaired record next to
            others. One line per family, up to 20; each names a record.

    Examples:
        >>> def view(variant, reference):
        ...     return TrainingView(
        ...         record_id=f"a-{variant}", family="a", variant=variant, view=0, kind="boolean",
        ...         token_ids=(5, 6), code_tokens=(8, 9), code_order=(0, 1), reference=reference)
        >>> group_families([view("base", 0), view("counterfactual", 1)])
        [Family(key='a', rows=(0, 1), longest=2)]
        >>> group_families([view("base", 0)])
        Traceback (most recent call last):
        pact_losses.errors.FamilyError: family a, record a-base: expected a base and a ...
    """
    rows: dict[Hashable, list[int]] = defaultdict(list)
    for row, view in enumerate(views):
        rows[view.family].append(row)
    faults: list[str] = []
    for key, own in rows.items():
        fault = next(_faults([views[row] for row in own]), None)
        if fault is not None:
            faults.append(f"family {key}, record {fault[0].record_id}: {fault[1]}")
    if faults:
        rest = len(faults) - _FAULTS_SHOWN
        shown = "\n".join(faults[:_FAULTS_SHOWN])
        raise FamilyError(shown + (f"\nand {rest:,} more families" if rest > 0 else ""))
    return [
        Family(key, tuple(own), max(len(views[row].token_ids) for row in own))
        for key, own in rows.items()
    ]


def _faults(views: Sequence[TrainingView]) -> Iterator[tuple[TrainingView, str]]:
    """Yield the faults of a family, each with a view that shows it."""
    if any(view.variant == "unpaired" for view in views):
        yield from _faults_of_unpaired(views)
        return
    yield from _faults_of_membership(views)
    base, other = (
        next(view for view in views if view.role == "primary" and view.variant == variant)
        for variant in _VARIANTS
    )
    if base.record_id == other.record_id:
        yield base, "expected two records, both members have this id"
    if base.reference == other.reference:
        yield base, f"expected different references, both members have {base.reference}"
    for view in views:
        fault = _fault_of_view(view, base if view.variant == "base" else other, base, other)
        if fault is not None:
            yield view, fault


def _faults_of_unpaired(views: Sequence[TrainingView]) -> Iterator[tuple[TrainingView, str]]:
    """Yield the faults of a family that has a view of an unpaired record."""
    yield from _repeated_views(views)
    primary = next((view for view in views if view.role == "primary"), None)
    if primary is None:
        yield views[0], "unpaired record without its primary view"
        return
    for view in views:
        if view.variant != "unpaired":
            yield view, f"expected unpaired views only, got one of the {view.variant} member"
        elif view.role == "ablated":
            yield view, "expected no ablated view of an unpaired record: it needs two answers"
        fault = _fault_of_view(view, primary, primary, primary)
        if fault is not None:
            yield view, fault


def _fault_of_view(
    view: TrainingView, primary: TrainingView, base: TrainingView, other: TrainingView
) -> str | None:
    """Compare a view with its own primary view and with those of its family."""
    if view.record_id != primary.record_id:
        return f"expected its primary view to be of the same record, got {primary.record_id}"
    if view.kind != base.kind:
        return f"expected {base.kind} as in the base, got {view.kind}"
    if view.n_choices != base.n_choices:
        return f"expected {base.n_choices} answers as in the base, got {view.n_choices}"
    if view.role == "permuted" and view.reference != primary.reference:
        return (
            f"view {view.view} has reference {view.reference}, its primary view {primary.reference}"
        )
    if view.role == "ablated" and view.variant != "base":
        return "expected the ablated view to be of the base, got the counterfactual"
    pair = (base.reference, other.reference)
    if view.ablated_answers is not None and tuple(view.ablated_answers) != pair:
        return (
            f"ablated view: expected the references of its pair, (base, counterfactual) {pair}, "
            f"got {view.ablated_answers}"
        )
    return None


def _faults_of_membership(views: Sequence[TrainingView]) -> Iterator[tuple[TrainingView, str]]:
    yield from _repeated_views(views)
    primaries = {view.variant for view in views if view.role == "primary"}
    for view in views:
        if view.role == "permuted" and view.variant not in primaries:
            yield view, f"permuted view {view.view} without its primary view"
    if len(primaries) < len(_VARIANTS):
        actual = f"only the {next(iter(primaries))}" if primaries else "no primary view"
        yield views[0], f"expected a base and a counterfactual, got {actual}"


def _repeated_views(views: Sequence[TrainingView]) -> Iterator[tuple[TrainingView, str]]:
    seen: set[tuple[str, str, int]] = set()
    for view in views:
        place = (view.role, view.variant, view.view)
        if place in seen:
            member = "unpaired record" if view.variant == "unpaired" else f"{view.variant} member"
            yield view, f"two {view.role} views, both number {view.view}, of the {member}"
        seen.add(place)


class FamilyBatchSampler(Sampler[list[int]]):
    """Batches of row indices that hold complete families, of similar length.

    In each epoch, families are shuffled, sorted by their longest prompt inside buckets of `bucket`
    families, and divided into batches of `families_per_batch`. The batches are shuffled, so lengths
    do not drift through the epoch. The order depends only on `seed` and the epoch.

    With several processes, the batches of one step are adjacent in the sorted order: no rank waits
    for a much longer batch of another. Every rank gets the same number of batches. If the last step
    has too few batches for all ranks, it is filled up with batches from the front, which then occur
    twice in that epoch; `drop_last` leaves that step out instead. Without `drop_last`, the last
    batch may have fewer families than the others.

    **DataLoader**: `DataLoader(views, batch_sampler=sampler, collate_fn=PactCollator(...))`; call
    `set_epoch` before each epoch, otherwise every epoch has the order of the first.

    **Accelerate and Trainer**: keep the defaults of `num_replicas` and `rank`, and pass the loader
    to `accelerator.prepare`. It distributes complete batches to the processes in turn, and fills up
    or drops the last step according to `even_batches`. There is deliberately no `batch_size`: it
    would make Accelerate split families. Keep `split_batches` and `dispatch_batches` off. Trainer
    calls `set_epoch` by itself; with Accelerate, call `set_epoch` of the prepared loader.

    **Lightning**: pass `num_replicas` and `rank`, and set `use_distributed_sampler=False`.

    Args:
        views: the views that the indices refer to.
        families_per_batch: families per batch, 1 or more.
        seed: seed of the order.
        bucket: number of families that are sorted together.
        num_replicas: number of processes that share the families.
        rank: number of this process, from 0.
        drop_last: leave out a batch of fewer families, and a step of fewer batches than ranks.

    Raises:
        FamilyError: as for `group_families`.
        ValueError: an argument is out of range, there are no families, or `drop_last` leaves none.

    Examples:
        >>> def view(family, variant, reference, tokens):
        ...     return TrainingView(
        ...         record_id=f"{family}-{variant}", family=family, variant=variant, view=0,
        ...         kind="boolean", token_ids=(5,) * tokens, code_tokens=(8, 9),
        ...         code_order=(0, 1), reference=reference)
        >>> views = [
        ...     view(family, variant, reference, tokens)
        ...     for family, tokens in (("a", 3), ("b", 9), ("c", 4), ("d", 8))
        ...     for variant, reference in (("base", 0), ("counterfactual", 1))]
        >>> sampler = FamilyBatchSampler(views, 2, seed=17)
        >>> len(sampler), sorted(sorted(batch) for batch in sampler)
        (2, [[0, 1, 4, 5], [2, 3, 6, 7]])
    """

    def __init__(
        self,
        views: Sequence[TrainingView],
        families_per_batch: int,
        *,
        seed: int,
        bucket: int = 64,
        num_replicas: int = 1,
        rank: int = 0,
        drop_last: bool = False,
    ) -> None:
        if families_per_batch < 1 or bucket < 1 or num_replicas < 1:
            raise ValueError(
                "expected families_per_batch, bucket and num_replicas of 1 or more, got "
                f"{families_per_batch}, {bucket} and {num_replicas}"
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"expected a rank from 0 to {num_replicas - 1}, got {rank}")
        self.families = group_families(views)
        self.families_per_batch = families_per_batch
        self.seed = seed
        self.bucket = bucket
        self.num_replicas = num_replicas
        self.rank = rank
        self.drop_last = drop_last
        self.epoch = 0
        if len(self) == 0:
            raise ValueError(
                f"expected families for at least one batch on every rank, got {len(self.families)}"
            )

    def __len__(self) -> int:
        """Batches of this rank in an epoch."""
        batches = _divide(len(self.families), self.families_per_batch, up=not self.drop_last)
        return _divide(batches, self.num_replicas, up=not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the batches of this rank in the current epoch."""
        rng = random.Random(f"families by seed {self.seed}, epoch {self.epoch}")
        batches = self._batches(rng)
        ranks = self.num_replicas
        n_steps = len(self)
        rounded = list(islice(cycle(batches), n_steps * ranks))
        steps = [rounded[step * ranks : (step + 1) * ranks] for step in range(n_steps)]
        rng.shuffle(steps)
        for step in steps:
            yield [row for family in step[self.rank] for row in family.rows]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, from 0; it determines the order together with the seed."""
        self.epoch = epoch

    @property
    def sampler(self) -> FamilyBatchSampler:
        """This sampler; Accelerate calls `set_epoch` of this attribute."""
        return self

    def _batches(self, rng: random.Random) -> list[list[Family]]:
        shuffled = rng.sample(self.families, len(self.families))
        in_order = [
            family
            for start in range(0, len(shuffled), self.bucket)
            for family in sorted(
                shuffled[start : start + self.bucket], key=lambda family: family.longest
            )
        ]
        size = self.families_per_batch
        n = _divide(len(in_order), size, up=not self.drop_last)
        return [in_order[batch * size : (batch + 1) * size] for batch in range(n)]


def _divide(count: int, by: int, *, up: bool) -> int:
    return -(-count // by) if up else count // by
