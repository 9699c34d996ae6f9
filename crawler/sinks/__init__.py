"""Where pages go besides the database; loaded only by crawls that have a sink."""
