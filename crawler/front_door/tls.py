"""The certificate of the page's listener: read, checked and replaced while connections are open."""

from __future__ import annotations

import hashlib
import re
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from crawler.config import Config, ConfigError

PEM_BYTES_MAX: Final = 1_000_000  # of a file with a certificate and its chain
EXPIRES_SOON: Final = timedelta(days=7)
# The validity of an X.509 certificate (RFC 5280, section 4.1): the first two times, of which each
# has its tag and its length before it.
_TIMES: Final = re.compile(rb"(?:\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)(\x17\x0d\d{12}Z|\x18\x0f\d{14}Z)")
_PEM: Final = re.compile(
    "-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL | re.ASCII
)


class CertificateError(Exception):
    """A certificate that cannot be used; the message is a sentence and contains no secret."""


class Certificate:
    """A certificate and its key, in PEM files, and the context for connections with it.

    Raises CertificateError.
    """

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        self._certificate = certificate
        self._key = key
        self._digest, self.context = self._loaded()

    def changed(self) -> bool:
        """Return whether the files hold another certificate or key by now. Raises CertificateError
        if they hold none that can be used."""
        return self._loaded()[0] != self._digest

    def renew(self) -> bool:
        """Use what the files hold now for new connections; those that are open keep theirs. Returns
        whether it is another certificate. Raises CertificateError: the old one stays in use."""
        digest, _ = self._loaded()
        if digest == self._digest:
            return False
        self._load(self.context)
        self._digest = digest
        return True

    def warnings(self, now: datetime) -> tuple[str, ...]:
        """Return what is probably unintended, in sentences. Raises CertificateError."""
        found = []
        if self._key is not None and _mode(self._key) & stat.S_IRWXO:
            found.append(
                f"every user of this machine can read {self._key} (daemon.tls_key): "
                "run `chmod o-rwx` on it"
            )
        ends = self._ends()
        if ends is not None and ends - now < EXPIRES_SOON:
            word = "expired" if ends <= now else "expires"
            found.append(
                f"the certificate {self._certificate} (daemon.tls_certificate) {word} on "
                f"{ends:%Y-%m-%d %H:%M} UTC: renew it, and reload"
            )
        return tuple(found)

    def _loaded(self) -> tuple[bytes, ssl.SSLContext]:
        """The digest of the files, and a new context with them."""
        digest = hashlib.sha256()
        for file in (self._certificate, self._key):
            if file is not None:
                digest.update(hashlib.sha256(_content(file)).digest())
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self._load(context)
        return digest.digest(), context

    def _load(self, context: ssl.SSLContext) -> None:
        def no_password() -> str:  # otherwise OpenSSL would ask on the terminal
            raise CertificateError(f"{self._key or self._certificate} is encrypted: decrypt it")

        try:
            context.load_cert_chain(self._certificate, self._key, no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                why = f"{self._key} is not the key of {self._certificate}"
            elif self._key is None:
                why = f"{self._certificate} does not hold a certificate and its key in PEM format"
            else:
                why = (
                    f"{self._certificate} and {self._key} do not hold a certificate and its key "
                    "in PEM format"
                )
            raise CertificateError(why) from None
        except OSError as error:
            raise CertificateError(f"{self._certificate}: {error.strerror}") from None

    def _ends(self) -> datetime | None:
        """When the certificate expires; None if that cannot be found."""
        pem = _PEM.search(_content(self._certificate).decode("ascii", "replace"))
        if pem is None:
            return None
        found = _TIMES.search(ssl.PEM_cert_to_DER_cert(pem[0]))
        if found is None:
            return None
        kind, text = found[1][:1], found[1][2:].decode("ascii")
        if kind == b"\x17":  # UTCTime, with two digits of the year
            text = ("19" if text[:2] >= "50" else "20") + text
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def certificate_of(config: Config) -> Certificate | None:
    """The certificate of the config; None if it has none. Raises ConfigError."""
    section = config.daemon
    if section.tls_certificate is None:
        return None
    try:
        return Certificate(section.tls_certificate, section.tls_key)
    except CertificateError as error:
        place = config.given.place("daemon.tls_certificate")
        raise ConfigError(f"{place}: daemon.tls_certificate: {error}") from None


def _content(file: Path) -> bytes:
    """Raises CertificateError, also for what is no regular file: reading it could wait forever."""
    try:
        if not stat.S_ISREG(_mode(file)):
            raise CertificateError(f"{file} is not a regular file")
        with file.open("rb") as opened:
            content = opened.read(PEM_BYTES_MAX + 1)
    except OSError as error:
        raise CertificateError(f"{file} cannot be read: {(error.strerror or '').lower()}") from None
    if len(content) > PEM_BYTES_MAX:
        raise CertificateError(f"{file} is larger than {PEM_BYTES_MAX:,} bytes")
    return content


def _mode(file: Path) -> int:
    """Raises CertificateError."""
    try:
        return file.stat().st_mode
    except OSError as error:
        raise CertificateError(f"{file} cannot be read: {(error.strerror or '').lower()}") from None
