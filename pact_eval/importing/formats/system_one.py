"""Source "system-one": requests of `/v1/systemone` and replies, one or two objects per request.

    {"request": {"model", "state", "questions"}, "response": {"model", "answers", "usage"}}

Both may be in one object, in two with the same id, or one after the other; a body may be text, and
below "body". An id, a time, a latency and a price may stand next to them.
"""

from __future__ import annotations

from typing import Final

from pact_eval._json import Json
from pact_eval.importing.exchange_rows import ExchangeSource, first_entries
from pact_eval.importing.exchanges import parts_of
from pact_eval.importing.source import Start


class SystemOne(ExchangeSource):
    """Requests and replies of System One: their questions and answers have names."""

    title = "System One"
    reads = "requests and replies"
    questions_are: type = dict

    def recognises(self, start: Start) -> bool:
        """A file whose first objects have questions and answers, and no other format's keys."""
        return not start.path.is_dir() and self._asks(first_entries(start))

    def _asks(self, entries: list[dict[str, Json]]) -> bool:
        parts = [parts_of(entry) for entry in entries]
        requests = [request["questions"] for request, _ in parts if "questions" in request]
        answers = [reply["answers"] for _, reply in parts if "answers" in reply]
        is_other = any({"v", "case_id", "run_id"} & entry.keys() for entry in entries)
        if is_other or not (answers or any("request" in entry for entry in entries)):
            return False  # entries with questions alone are data
        both = [*requests, *answers]
        return bool(both) and all(isinstance(each, self.questions_are) for each in both)


SOURCE: Final = SystemOne()
"""The entry of the registry."""
