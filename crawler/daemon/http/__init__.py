"""The HTTP API: routes, request types, guards and server-sent events."""
