"""Our version: written here, read by the build (pyproject.toml) and by ourselves.

To look it up in what is installed takes longer than all else that `courtly --version` does.
"""

__version__ = "0.1.0"
