"""How does a TLS connection prove a peer's key? By a certificate of that key that the peer signed itself.

Only the key in the certificate counts: the caller knows which key it wants. The called peer cannot ask for the
caller's in the same way, since Python's ssl takes no certificate that no authority signed; the caller proves itself
inside (`wire.Hello`). The identity's key signs both, with texts that cannot be confused: a text signed by TLS begins
with 64 spaces (RFC 8446, 4.4.3).
"""

import datetime as dt
import os
import secrets
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from herodotus.peers.net.wire import ALPN

CERTIFICATE_BYTES_MAX = 4_096
"""Ours has 250. TLS itself lets one be 100 kB long."""
_BEGIN = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_END = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
"""Nobody looks at the time: a key is good for as long as the ring says."""


def self_signed(key: Ed25519PrivateKey) -> bytes:
    """In PEM form."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "herodotus peer")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    dated = builder.serial_number(1).not_valid_before(_BEGIN).not_valid_after(_END)
    return dated.sign(key, None).public_bytes(Encoding.PEM)


def key_of(certificate: bytes) -> bytes | None:
    """The Ed25519 key in a certificate (DER); None when there is no such key in it."""
    if len(certificate) > CERTIFICATE_BYTES_MAX:
        return None
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except Exception:  # noqa: BLE001  # the parser of strangers' bytes raises many kinds; all mean the same
        return None
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


def called_context(key: Ed25519PrivateKey) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    context.num_tickets = 0  # connections are kept instead, and a resumed one would show no certificate
    password = secrets.token_urlsafe(32)
    encrypted = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password.encode())
    )
    # ssl reads keys from files alone; this one opens with a password that never leaves the memory.
    handle, name = tempfile.mkstemp(prefix="herodotus-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(self_signed(key) + encrypted)
        context.load_cert_chain(name, password=password)
    finally:
        Path(name).unlink()
    return context


def caller_context() -> ssl.SSLContext:
    """It takes any certificate, and so proves nothing until the key was compared; the handshake proves possession."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    _harden(context)
    return context


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([ALPN])
