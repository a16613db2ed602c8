"""Run folders: provenance and predictions, written part by part; imports and training logs."""
