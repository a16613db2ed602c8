"""Evaluation: from a run's predictions to every number of the report.

Every metric of the registry is computed for all items and for each kind, domain or source family,
with an interval over families. The report also has the outcomes of pairs and a test of
letter bias. This package only computes; `pact_reports` shows the results.
"""
