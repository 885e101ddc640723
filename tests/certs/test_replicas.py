"""Tests of reading the leaves that replicas serve, and of decisions that depend on these leaves."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from certs import objects
from certs.authority import Pair, issue, new_authority
from certs.decide import Action
from certs.replicas import addresses, served_leaves
from tests.certs.fake import NAMESPACE, WANTED, Clock, create_api, rotator
from tests.certs.installation import data

SETTLE = WANTED.settle + timedelta(seconds=1)


@contextmanager
def replica(certificate: bytes, key: bytes, folder: Path) -> Iterator[tuple[str, int]]:
    """Yields the address of a TLS server on loopback, which closes a connection after the handshake."""
    (folder / "crt").write_bytes(certificate)
    (folder / "key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, context))
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:  # the thread must end if a test fails
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # the test is over
            return
        with connection:
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                continue


def endpoint_slices(*replicas: tuple[str, int]) -> dict[str, object]:
    items = [{"ports": [{"port": port}], "endpoints": [{"addresses": [host]}]} for host, port in replicas]
    return {
        "items": [*items, {"ports": None, "endpoints": None}, {"endpoints": [{"addresses": ["10.0.0.9"]}]}]
    }


def issue_leaf() -> Pair:
    now = datetime.now(UTC)
    return issue(new_authority(now, timedelta(days=1)), now, timedelta(days=1), ["name"])


def test_each_address_and_port_is_listed_once() -> None:
    slices = endpoint_slices(("10.0.0.2", 8443), ("10.0.0.1", 8443), ("10.0.0.2", 8443))
    assert addresses(slices) == [("10.0.0.1", 8443), ("10.0.0.2", 8443)]
    assert addresses({"items": None}) == addresses(None) == []


def test_the_leaf_of_a_replica_is_read_and_an_unreachable_replica_is_left_out(tmp_path: Path) -> None:
    leaf = issue_leaf()
    with replica(leaf.certificate_pem(), leaf.key_pem(), tmp_path) as (host, port):
        leaves = served_leaves([(host, port), ("127.0.0.1", 1)])
    assert leaves == {f"{host}:{port}": leaf.certificate}
    assert served_leaves([]) == {}


def test_the_old_authority_stays_trusted_until_no_replica_serves_its_leaf(tmp_path: Path) -> None:
    api, clock = create_api(), Clock()
    rotator(api, clock).run()
    old_files = data(api.objects[f"{objects.secrets_path(NAMESPACE)}/tls"])
    rotator(api, clock).run(replace_authority=True)
    clock.forward(SETTLE)
    rotator(api, clock).run()
    slices = objects.endpoint_slices_path(NAMESPACE, "webhook")
    with replica(old_files["tls.crt"], old_files["tls.key"], tmp_path) as (host, port):
        api.objects[slices] = endpoint_slices((host, port))
        clock.forward(SETTLE)
        for _ in range(3):
            outcome = rotator(api, clock).run()
            assert outcome.last.action is Action.WAIT
            assert f"still served by {host}:{port}" in outcome.last.why
            assert len(outcome.stored.authority.bundle) == 2
            clock.forward(SETTLE)
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1
