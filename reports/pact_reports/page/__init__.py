"""One HTML page of runs: a single file that works offline, also as a mail attachment.

Python writes summary, figures and tables as plain HTML. Only the item browser needs a script.
"""
