"""Which leaf each replica serves: asked over TLS, at the addresses of the Service's EndpointSlices."""

from __future__ import annotations

import contextlib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from cryptography import x509

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube.api import Object

TIMEOUT_SECONDS = 2.0
_AT_ONCE = 8

Address = tuple[str, int]
"""An IP address or host, and a port."""


def addresses(slices: Object | None) -> list[Address]:
    """The addresses in a list of EndpointSlices.

    Those that are not ready are among them: an API server may hold a connection to one that was.
    """
    found: set[Address] = set()
    for item in (slices or {}).get("items") or []:
        ports = [port["port"] for port in item.get("ports") or [] if port.get("port")]
        for endpoint in item.get("endpoints") or []:
            found |= {(address, port) for address in endpoint.get("addresses") or [] for port in ports}
    return sorted(found)


def served(wanted: Sequence[Address], server_name: str) -> dict[str, x509.Certificate]:
    """Ask addresses for their certificate, by the name that the API server would ask for.

    Returns:
        The leaf by ``host:port``. An address that does not answer is left out: there is nobody behind it
        (its pod has gone, or has not come up), or the network does not let this program see it. Then time
        alone decides.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = pool.map(lambda address: _leaf(address, server_name), wanted)
        return {f"{host}:{port}": leaf for (host, port), leaf in zip(wanted, answers, strict=True) if leaf}


def _leaf(address: Address, server_name: str) -> x509.Certificate | None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing is sent; a certificate that does not verify is an answer, too.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with contextlib.suppress(OSError, ValueError):  # ssl.SSLError is an OSError
        with (
            socket.create_connection(address, TIMEOUT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=server_name) as secure,
        ):
            der = secure.getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(der) if der else None
    return None
