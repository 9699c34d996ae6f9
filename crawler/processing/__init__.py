"""One URL, from its host queue to the outcome that the commit buffer receives."""
