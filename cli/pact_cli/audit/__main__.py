"""`python -m pact_cli.audit` is `pact-audit`."""

from pact_cli.start import pact_audit

pact_audit()
