"""Run folders: provenance and predictions, written part by part; and training logs."""
