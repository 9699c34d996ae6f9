"""The operations of the HTTP API, independent of HTTP."""
