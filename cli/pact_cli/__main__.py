"""`python -m pact_cli` is `pact-eval`."""

from pact_cli.start import pact_eval

pact_eval()
