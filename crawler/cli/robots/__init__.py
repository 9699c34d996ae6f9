"""The commands under `courtly robots`."""
