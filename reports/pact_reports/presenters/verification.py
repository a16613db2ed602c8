"""The checks of runs against what was recorded, and the roles of families."""

from __future__ import annotations

from collections.abc import Sequence

from pact_eval.verification.family_roles import FamilyRoles
from pact_eval.verification.run_checks import CheckedRun
from pact_reports.presenters.presenter import Presenter
from pact_reports.tables.verification import checks_lines, roles_parts
from pact_reports.writers.json import to_json


def present(runs: Sequence[CheckedRun], roles: Sequence[FamilyRoles]) -> Presenter:
    """Present checked runs, and which families were used for what.

    Args:
        runs: the runs.
        roles: the roles of families, by adapter.
    """
    return Presenter(
        tables=lambda: (*(line for run in runs for line in checks_lines(run)), *roles_parts(roles)),
        to_json=lambda: {"runs": [*map(to_json, runs)], "roles": to_json(roles)},
        blocks=lambda: (*map(checks_lines, runs), roles_parts(roles)),
    )
