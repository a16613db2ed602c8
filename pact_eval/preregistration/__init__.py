"""Registered hypotheses: criteria written down first, frozen in a lock, and judged on numbers.

`read_hypotheses` reads the criteria, `register` freezes them. `judge` gives a scorecard of verdicts
with their evidence, from the numbers in `pact_eval.evaluation.arms`, and `check_lock` says what the
lock proves.
"""
