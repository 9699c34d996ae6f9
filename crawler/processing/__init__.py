"""One URL, from the hand of its host to an outcome that the ledger commits."""
