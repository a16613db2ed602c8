"""Known vulnerabilities of the locked versions: `make vulnerabilities` runs this.

pip-audit asks PyPI for advisories. It ends with 0 and "No known vulnerabilities found" if it could
look up none of the versions, and with a traceback if it cannot reach PyPI. This script counts what
was checked, and says "not checked" of the rest. Exit codes: 0 all checked, none vulnerable; 1
vulnerable; 4 not everything was checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PIP_AUDIT = "pip-audit@2.10.1"
LOCK = Path(__file__).parents[1] / "requirements.lock"
_SHOWN = 5


@dataclass(frozen=True)
class Audit:
    """What pip-audit says of some versions.

    Attributes:
        checked: number of versions whose advisories it has read.
        vulnerable: one line for each vulnerable version.
        unchecked: names of the other packages.
        failure: why it gave no result; "" if it gave one.
    """

    checked: int = 0
    vulnerable: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    failure: str = ""

    @property
    def exit_code(self) -> int:
        """1 if a version is vulnerable, 4 if not all were checked, or 0."""
        if self.vulnerable:
            return 1
        return 4 if self.unchecked or not self.checked else 0

    @property
    def text(self) -> str:
        """What to print."""
        lines = list(self.vulnerable)
        if self.checked:
            lines.append(f"checked: {self.checked} versions, {len(self.vulnerable)} vulnerable")
        if self.unchecked:
            names = ", ".join(self.unchecked[:_SHOWN])
            more = ", ..." if len(self.unchecked) > _SHOWN else ""
            number = len(self.unchecked)
            lines.append(f"not checked: PyPI has no answer for {number} versions ({names}{more})")
        if not self.checked and not self.unchecked:
            reason = self.failure or "it names no versions"
            lines.append(f"not checked: pip-audit gave no result: {reason}")
        return "\n".join([*lines, "not checked: torch, which is not in the lock"])


def read_audit(output: str, errors: str) -> Audit:
    """Return what the JSON of pip-audit says; the last line of its errors if there is none."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return Audit(failure=(errors.strip().splitlines() or ["no output"])[-1][:300])
    audited = [package for package in packages if "skip_reason" not in package]
    return Audit(
        len(audited),
        tuple(_line(package) for package in audited if package["vulns"]),
        tuple(package["name"] for package in packages if "skip_reason" in package),
    )


def _line(package: dict[str, Any]) -> str:
    advisories = "; ".join(
        f"{advisory['id']}, fixed in {', '.join(advisory['fix_versions']) or 'no version'}"
        for advisory in package["vulns"]
    )
    return f"vulnerable: {package['name']} {package['version']} ({advisories})"


def main(uv: str) -> int:
    """Run pip-audit through uv on the lock; print what was checked, and return the exit code."""
    command = [uv, "tool", "run", PIP_AUDIT, "--requirement", str(LOCK), "--disable-pip"]
    command += ["--require-hashes", "--format", "json", "--progress-spinner", "off"]
    result = subprocess.run(command, capture_output=True, text=True)
    audit = read_audit(result.stdout, result.stderr)
    sys.stdout.write(audit.text + "\n")
    return audit.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
