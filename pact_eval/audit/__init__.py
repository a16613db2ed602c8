"""Audits of datasets and of adapters.

Each check answers one question in one file, which holds its entry for the registry (`registry`),
the codes of its findings and the function that runs it. A check of a dataset looks at an index with
one row per record, and reads records again if it needs their texts. No check needs torch.
"""
