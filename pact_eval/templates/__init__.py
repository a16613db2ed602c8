"""Decision templates of transformers: their files, and the prompt contract that they make.

`files.py` reads the files and renders a template within limits, without a model library.
`contract.py` makes prompts of them with transformers, and is imported by name by what loads models.
"""
