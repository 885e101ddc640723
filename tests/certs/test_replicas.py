"""The leaves that replicas serve, and the decisions that follow."""

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
from tests.certs.fake import NAMESPACE, WANTED, Clock, installed, rotator
from tests.certs.installation import data

SETTLED = WANTED.settle + timedelta(seconds=1)


@contextmanager
def replica(certificate: bytes, key: bytes, folder: Path) -> Iterator[tuple[str, int]]:
    """Yields a TLS server on loopback that shakes hands and closes."""
    (folder / "crt").write_bytes(certificate)
    (folder / "key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "crt", folder / "key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener, context))
        thread.start()
        try:
            yield listener.getsockname()[:2]
        finally:  # or a test that fails never ends
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:  # the test is over
            return
        with plain:
            try:
                context.wrap_socket(plain, server_side=True).close()
            except OSError:
                continue


def endpoint_slice(*replicas: tuple[str, int]) -> dict[str, object]:
    items = [{"ports": [{"port": port}], "endpoints": [{"addresses": [host]}]} for host, port in replicas]
    return {
        "items": [*items, {"ports": None, "endpoints": None}, {"endpoints": [{"addresses": ["10.0.0.9"]}]}]
    }


def some_leaf() -> Pair:
    now = datetime.now(UTC)
    return issue(new_authority(now, timedelta(days=1)), now, timedelta(days=1), ["name"])


def test_every_address_is_asked_on_every_port_once() -> None:
    twice = endpoint_slice(("10.0.0.2", 8443), ("10.0.0.1", 8443), ("10.0.0.2", 8443))
    assert addresses(twice) == [("10.0.0.1", 8443), ("10.0.0.2", 8443)]
    assert addresses({"items": None}) == addresses(None) == []


def test_the_leaf_of_a_replica_is_read_and_a_dead_replica_has_none(tmp_path: Path) -> None:
    leaf = some_leaf()
    with replica(leaf.certificate_pem(), leaf.key_pem(), tmp_path) as (host, port):
        states = served_leaves([(host, port), ("127.0.0.1", 1)])
    assert states == {f"{host}:{port}": leaf.certificate}
    assert served_leaves([]) == {}


def test_the_old_authority_stays_until_the_last_replica_has_moved(tmp_path: Path) -> None:
    api, clock = installed(), Clock()
    rotator(api, clock).run()
    old = data(api.objects[f"{objects.secrets_path(NAMESPACE)}/tls"])
    rotator(api, clock).run(replace_authority=True)
    clock.forward(SETTLED)
    rotator(api, clock).run()
    slices = objects.endpoint_slices_path(NAMESPACE, "webhook")
    with replica(old["tls.crt"], old["tls.key"], tmp_path) as (host, port):
        api.objects[slices] = endpoint_slice((host, port))
        clock.forward(SETTLED)
        for _ in range(3):
            outcome = rotator(api, clock).run()
            assert outcome.last.action is Action.WAIT
            assert f"still served by {host}:{port}" in outcome.last.why
            assert len(outcome.stored.authority.bundle) == 2
            clock.forward(SETTLED)
    assert len(rotator(api, clock).run().stored.authority.bundle) == 1
