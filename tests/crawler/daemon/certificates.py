"""Certificates for tests, made by openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

OPENSSL: Final = shutil.which("openssl")


def make_certificate(folder: Path, name: str = "page", *, encrypted: bool = False) -> None:
    """A self-signed certificate for loopback: NAME.pem and NAME.key."""
    assert OPENSSL is not None
    secret = ("-passout", "pass:hunter2") if encrypted else ("-nodes",)
    subprocess.run(
        (
            *(OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "30"),
            *("-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", *secret),
        ),
        cwd=folder,
        check=True,
        capture_output=True,
    )  # fmt: skip
    (folder / f"{name}.key").chmod(0o600)
