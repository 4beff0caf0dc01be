"""Names are read from certificates that openssl made; whether gRPC takes them, the servers with TLS show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serving.certificates import self_signed
from trtspec.serving.certificates import certificate_names, tls_address
from trtspec.wire.connection import parse_address


@pytest.mark.parametrize(
    ("names", "subject", "found"),
    [
        ("IP:127.0.0.1,DNS:gpu1.example", "/CN=other", ("gpu1.example", "127.0.0.1")),
        ("DNS:*.gpu.example", "/CN=other", ("*.gpu.example",)),
        ("IP:::1", "/CN=other", ("::1",)),
        (",".join(f"DNS:node{n}.example" for n in range(40)), "/CN=x", tuple(f"node{n}.example" for n in range(40))),
        ("", "/O=An Organisation/CN=gpu1.example", ("gpu1.example",)),
        ("email:me@example.org", "/CN=gpu1.example", ("gpu1.example",)),
        ("", "/O=An Organisation", ()),
    ],
)
def test_the_names_of_a_certificate(tmp_path: Path, names: str, subject: str, found: tuple[str, ...]) -> None:
    certificate, _ = self_signed(tmp_path, names, subject)
    assert certificate_names(certificate) == found


def test_the_first_of_a_chain_counts_whatever_else_the_file_says(tmp_path: Path) -> None:
    first, _ = self_signed(tmp_path / "first", "DNS:first.example")
    second, _ = self_signed(tmp_path / "second", "DNS:second.example")
    chain = tmp_path / "chain.pem"
    chain.write_text(f"Certificate:\n    Data: of the first\n{first.read_text()}{second.read_text()}")
    assert certificate_names(chain) == ("first.example",)


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 40, 200, 500])
def test_a_damaged_one_has_no_names(tmp_path: Path, cut: int) -> None:
    import base64
    import ssl

    certificate, _ = self_signed(tmp_path)
    text = base64.b64encode(ssl.PEM_cert_to_DER_cert(certificate.read_text())[:cut]).decode()
    certificate.write_text(f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    assert certificate_names(certificate) == ()


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n"])
def test_what_is_none_has_no_names(tmp_path: Path, text: str) -> None:
    (tmp_path / "cert.pem").write_text(text)
    assert certificate_names(tmp_path / "cert.pem") == ()
    assert certificate_names(tmp_path / "none.pem") == ()


def test_a_name_goes_along_only_where_it_is_needed(tmp_path: Path) -> None:
    ours, _ = self_signed(tmp_path / "ours")
    assert tls_address("127.0.0.1:8001", ours) == f"grpcs://127.0.0.1:8001#{ours}"
    assert parse_address(tls_address("[::1]:8001", ours)).name == "gpu1.example"
    wild, _ = self_signed(tmp_path / "50% #1", "DNS:*.gpu.example")
    address = parse_address(tls_address("127.0.0.1:8001", wild))
    assert (address.target, address.name, address.authorities) == ("127.0.0.1:8001", "any.gpu.example", wild)
