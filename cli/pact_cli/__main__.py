"""`python -m pact_cli` is `pact-eval`."""

from pact_cli.main import main

main(prog_name="pact-eval")
