"""What can be checked about runs and reports: seals, digests, and the files that a run names."""

from pact_eval.verification.family_roles import (
    FAMILY_ROLES,
    FamilyRoles,
    RoleOfFamilies,
    family_roles,
)
from pact_eval.verification.report_file import PAGE_ELEMENT, CheckedReport, verify_report
from pact_eval.verification.run_checks import (
    CheckedRun,
    Outcome,
    Places,
    RunCheck,
    verify_run,
    verify_runs,
)

__all__ = [
    "FAMILY_ROLES",
    "PAGE_ELEMENT",
    "CheckedReport",
    "CheckedRun",
    "FamilyRoles",
    "Outcome",
    "Places",
    "RoleOfFamilies",
    "RunCheck",
    "family_roles",
    "verify_report",
    "verify_run",
    "verify_runs",
]
