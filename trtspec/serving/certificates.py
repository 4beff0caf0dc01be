"""For whom a certificate is: clients on the server's own machine connect to an address that it may not name.

gRPC holds the address against the certificate, without a way to leave that out, so it has to be told another name.
A certificate is read as DER (ITU-T X.690) with the structure of RFC 5280, sections 4.1 and 4.2.1.6; nothing of it is
believed here, and one that cannot be read has no names.
"""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

__all__ = ["certificate_names", "tls_address"]

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_ALTERNATIVE_NAMES, _COMMON_NAME = b"\x55\x1d\x11", b"\x55\x04\x03"
_EXPLICIT_VERSION, _EXTENSIONS, _DNS, _IP = 0xA0, 0xA3, 0x82, 0x87
_SUBJECT = 4  # among the fields after the version
_LONG = 0x80


def tls_address(address: str, certificate: Path) -> str:
    """`address` (HOST:PORT) of a server with this certificate, as `trtspec.wire.Connection` takes it.

    The certificate itself is the authority. Its first name goes along where it is not for HOST.
    """
    names = certificate_names(certificate)
    host = address.rpartition(":")[0].strip("[]")
    name = "" if host in names or not names else f"?name={quote(names[0].replace('*', 'any', 1))}"
    return f"grpcs://{address}{name}#{quote(str(certificate))}"


def certificate_names(file: Path) -> tuple[str, ...]:
    """DNS names, then IP addresses, of the first certificate in a PEM file; its common name where it has neither."""
    try:
        found = _PEM.search(file.read_bytes())
        return _names(base64.b64decode(found[1])) if found else ()
    except (OSError, ValueError, IndexError):
        return ()


def _names(der: bytes) -> tuple[str, ...]:
    ((_, certificate),) = _elements(der)
    fields = [item for item in _elements(next(_elements(certificate))[1]) if item[0] != _EXPLICIT_VERSION]
    extensions = [content for tag, content in fields if tag == _EXTENSIONS]
    names = _alternative_names(extensions[0]) if extensions else ()
    return names or _common_names(fields[_SUBJECT][1])


def _alternative_names(extensions: bytes) -> tuple[str, ...]:
    for _, extension in _elements(next(_elements(extensions))[1]):
        (_, kind), *_, (_, value) = _elements(extension)
        if kind == _ALTERNATIVE_NAMES:
            found = list(_elements(next(_elements(value))[1]))
            hosts = [content.decode("ascii") for tag, content in found if tag == _DNS]
            return (*hosts, *(str(ipaddress.ip_address(content)) for tag, content in found if tag == _IP))
    return ()


def _common_names(subject: bytes) -> tuple[str, ...]:
    attributes = [list(_elements(pair)) for _, group in _elements(subject) for _, pair in _elements(group)]
    return tuple(value.decode("utf-8") for (_, kind), (_, value) in attributes if kind == _COMMON_NAME)


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(tag, content) of each DER element in `data`; ValueError or IndexError where it is none."""
    at = 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size >= _LONG:
            digits = size - _LONG
            size, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        if at + size > len(data):
            raise ValueError("cut off")
        yield tag, data[at : at + size]
        at += size
