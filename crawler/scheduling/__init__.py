"""The scheduler: carries out what the frontier decides, from the first host to the last commit."""
