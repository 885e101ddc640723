"""Reads the leaf that each replica serves, over TLS, at the addresses of the Service's EndpointSlices."""

import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from cryptography import x509

from kube.api import Object

TIMEOUT_SECONDS = 2.0
_MAX_THREADS = 8

Address = tuple[str, int]
"""An IP address or host, and a port."""


def addresses(slices: Object | None) -> list[Address]:
    """Returns the addresses in a list of EndpointSlices.

    Addresses that are not ready are included, because an API server may have an old connection to them.
    """
    pairs: set[Address] = set()
    for slice_ in (slices or {}).get("items") or []:
        ports = [port["port"] for port in slice_.get("ports") or [] if port.get("port")]
        for endpoint in slice_.get("endpoints") or []:
            pairs |= {(address, port) for address in endpoint.get("addresses") or [] for port in ports}
    return sorted(pairs)


def served_leaves(replicas: Sequence[Address]) -> dict[str, x509.Certificate]:
    """Returns the leaf that each replica serves, even if the leaf cannot be verified.

    Returns:
        The leaf by ``host:port``. A replica that does not answer is left out: its pod is deleted or not yet
        started, or a network policy blocks this program. Decisions wait for it only a settling time.
    """
    with ThreadPoolExecutor(_MAX_THREADS) as pool:
        leaves = pool.map(_leaf, replicas)
        return {f"{host}:{port}": leaf for (host, port), leaf in zip(replicas, leaves, strict=True) if leaf}


def _leaf(address: Address) -> x509.Certificate | None:
    try:
        pem = ssl.get_server_certificate(address, timeout=TIMEOUT_SECONDS)
        return x509.load_pem_x509_certificate(pem.encode())
    except (OSError, ValueError):  # ssl.SSLError is an OSError
        return None
