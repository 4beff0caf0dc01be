"""Certificates that vouch for themselves, made by the openssl program."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

__all__ = ["self_signed"]


def self_signed(
    folder: Path, names: str = "IP:127.0.0.1,DNS:gpu1.example", subject: str = "/CN=127.0.0.1"
) -> tuple[Path, Path]:
    """(certificate, key) as PEM files in `folder`; the test is skipped without openssl. No `names`: the subject's."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    certificate, key = folder / "cert.pem", folder / "key.pem"
    alternative = ["-addext", f"subjectAltName={names}"] if names else []
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", subject, *alternative,
            "-keyout", str(key), "-out", str(certificate),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return certificate, key
