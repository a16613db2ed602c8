"""Model cards: the evaluation results of a run in the metadata and the text of a README."""
