"""The answers over HTTP: routes, what is asked of every request, who may, and live events."""
