"""Which leaf each replica serves: asked over TLS, at the addresses of the Service's EndpointSlices."""

import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cryptography import x509

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


def served(wanted: Sequence[Address]) -> dict[str, x509.Certificate]:
    """Ask addresses for their certificate; one that does not verify is an answer, too.

    Returns:
        The leaf by ``host:port``. An address that does not answer is left out: there is nobody behind it
        (its pod has gone, or has not come up), or the network does not let this program see it. Then time
        alone decides.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = pool.map(_leaf, wanted)
        return {f"{host}:{port}": leaf for (host, port), leaf in zip(wanted, answers, strict=True) if leaf}


def _leaf(address: Address) -> x509.Certificate | None:
    try:
        pem = ssl.get_server_certificate(address, timeout=TIMEOUT_SECONDS)
        return x509.load_pem_x509_certificate(pem.encode())
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None
