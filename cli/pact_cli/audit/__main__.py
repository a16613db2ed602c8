"""`python -m pact_cli.audit` is `pact-audit`."""

from pact_cli.audit.main import main

main(prog_name="pact-audit")
