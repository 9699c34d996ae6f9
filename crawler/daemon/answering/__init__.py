"""What the daemon answers and what it may be asked to do, as JSON-ready values."""
