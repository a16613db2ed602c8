"""Entry point of `python -m pact_cli.audit`, the same as `pact-audit`."""

from pact_cli.start import pact_audit

pact_audit()
