"""Audits: is a dataset honest, and is an adapter what it says?

One question a file. A check of a dataset looks at the index (`index`), a row a record, and reads
records again where it needs their texts; it collects findings (`findings`) under codes that stand
in one table (`codes`). No check needs torch.
"""
