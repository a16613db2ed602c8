"""Tries again without the pauses that real servers need."""

from __future__ import annotations

import pytest

from pact_eval.scoring.servers import client


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE", 1e-4)
