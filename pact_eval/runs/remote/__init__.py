"""Runs and logs in object stores: copied once, and read from the copy."""

from pact_eval.runs.remote.copies import log_path, run_folder, run_folders

__all__ = ["log_path", "run_folder", "run_folders"]
