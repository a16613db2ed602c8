"""Entry point of `python -m pact_cli`, the same as `pact-eval`."""

from pact_cli.start import pact_eval

pact_eval()
