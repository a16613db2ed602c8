"""Engines that turn views into logits: the only part of pact-eval that needs torch and a model."""
