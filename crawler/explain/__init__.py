"""Explanations: the state of URLs and hosts, in sentences."""
