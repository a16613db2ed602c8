"""Views one by one: the records of a window to ask next, and their answers so far.

Records whose families get all views are asked for them at once; the others for view 0, and then for
one view after the other until the rule stops them (`runs/view_rule.py`). A pass is thus a batch of
many records, whatever each of them needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pact_eval.data.records import Record
from pact_eval.runs.view_rule import ViewRule


class ViewTaking:
    """The views that the records of a window have been asked for.

    Args:
        rule: when an item has enough views.
        records: the records.
        most: number of views that each of them can have: its distinct orders, at most K.

    Examples:
        >>> from pact_eval.data.records import parse_record
        >>> record = parse_record({"id": "a", "family": "f", "source_family": "s", "domain": "d",
        ...     "split": "validation", "variant": "base", "input": {"state": "", "questions": {
        ...     "decision": {"type": "noul", "instructions": "?"}}}, "reference": {"target": True}})
        >>> taking = ViewTaking(ViewRule(3.0, 0.02, full_share=0.0), [record], [2])
        >>> taking.next_views()
        [(0, 0)]
        >>> taking.answered({(0, 0): [0.0, 1.0]})
        >>> taking.next_views(), taking.finished
        ([(0, 1)], 0)
    """

    def __init__(self, rule: ViewRule, records: Sequence[Record], most: Sequence[int]) -> None:
        self._rule = rule
        self._most = list(most)
        self._all = [rule.gets_all_views(record.family) for record in records]
        self._logits: list[list[Sequence[float]]] = [[] for _ in records]
        self._stopped = [False] * len(records)

    @property
    def finished(self) -> int:
        """Number of records that need no further view."""
        return sum(self._stopped)

    def next_views(self) -> list[tuple[int, int]]:
        """Return the next pass: numbers of records and of their views; empty at the end."""
        views: list[tuple[int, int]] = []
        for number, stopped in enumerate(self._stopped):
            if not stopped:
                first = len(self._logits[number])
                last = self._most[number] if self._all[number] else first + 1
                views += [(number, view) for view in range(first, last)]
        return views

    def answered(self, logits: Mapping[tuple[int, int], Sequence[float]]) -> None:
        """Note the answers to a pass.

        Args:
            logits: by record and view, in canonical order; a record that is not among them has no
                answer, and is not asked again.
        """
        numbers = {number for number, _ in self.next_views()}
        for number, view in sorted(logits):
            self._logits[number].append(logits[number, view])
        for number in numbers:
            views = self._logits[number]
            done = not views or len(views) >= self._most[number]
            unanswered = not any(row == number for row, _ in logits)
            self._stopped[number] = (
                done or unanswered or self._rule.stops(views, self._most[number])
            )
