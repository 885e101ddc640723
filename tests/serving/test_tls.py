"""Versions, resumption, and certificate files that change under the server."""

from __future__ import annotations

import json
import ssl
import time
import warnings
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives import serialization

from certs import authority
from tests.serving.conftest import PATIENCE
from webhook.serving import tls
from webhook.serving.tls import TlsFiles, new_context

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.serving.conftest import Files, Server


def serial(server: Server) -> int:
    """Serial number of the certificate that a new connection is shown."""
    certificate = server.tls().getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


def status(server: Server) -> dict[str, Any]:
    with server.client() as client:
        assert client.get("/tls") == 200
        found: dict[str, Any] = json.loads(client.content)
        return found


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_versions_before_tls_1_2_are_refused(start: Callable[..., Server], version: ssl.TLSVersion) -> None:
    server = start()
    old = server.files.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = version
        old.maximum_version = version
    old.set_ciphers("ALL:@SECLEVEL=0")  # so that it is the server that refuses
    with pytest.raises(ssl.SSLError, match=r"ALERT_PROTOCOL_VERSION"):
        server.tls(old)
    server.wait_for(lambda: "UNSUPPORTED_PROTOCOL" in server.log(), "the server's reason")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken_with_http_1_1_chosen(
    start: Callable[..., Server], version: ssl.TLSVersion
) -> None:
    server = start()
    context = server.files.client_context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    assert server.tls(context).selected_alpn_protocol() == "http/1.1"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed(start: Callable[..., Server], version: ssl.TLSVersion) -> None:
    server = start(workers=2)  # the context is older than the workers, so any of them resumes
    context = server.files.client_context()
    context.minimum_version = context.maximum_version = version
    session = None
    for attempt in range(4):
        sock = server.tls(context, session=session)
        assert sock.session_reused is (attempt > 0)
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 200"  # tickets of 1.3 come with the first bytes
        session = sock.session


def test_a_changed_pair_is_reloaded_without_restart_and_kept_connections_live_on(
    start: Callable[..., Server], files: Files
) -> None:
    server = start()
    with server.client() as kept:
        assert kept.get("/") == 200
        sock, pid = kept.connection.sock, kept.content
        for reload in range(1, 4):
            pair = files.issue()
            files.key.write_bytes(pair.key_pem())
            files.certificate.write_bytes(pair.certificate_pem())
            assert serial(server) == pair.certificate.serial_number
            assert status(server)["reloads"] == reload
        assert kept.get("/") == 200
        assert kept.content == pid
        assert kept.connection.sock is sock


@pytest.mark.parametrize("half", ["key", "certificate", "garbage", "missing"])
def test_a_half_written_pair_keeps_the_old_one_and_is_logged_and_counted(
    start: Callable[..., Server], files: Files, half: str
) -> None:
    server = start()
    before = serial(server)
    pair = files.issue()
    if half == "key":
        files.key.write_bytes(pair.key_pem())
    elif half == "certificate":
        files.certificate.write_bytes(pair.certificate_pem())
    elif half == "garbage":
        files.certificate.write_bytes(pair.certificate_pem()[:100])
    else:
        files.certificate.unlink()
    for _ in range(3):
        assert serial(server) == before
    found = status(server)
    assert found["failures"] == 1
    assert str(files.certificate) in found["error"]
    server.wait_for(lambda: server.log().count("keeping TLS certificate") == 1, "one line a change")
    files.key.write_bytes(pair.key_pem())
    files.certificate.write_bytes(pair.certificate_pem())
    assert serial(server) == pair.certificate.serial_number
    assert status(server)["error"] == ""


def test_a_mounted_secret_swapped_by_its_link_is_reloaded(files: Files, tmp_path: Path) -> None:
    for name in ("old", "new"):
        pair = files.issue(days=1 if name == "old" else 2)
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_bytes(pair.certificate_pem())
        (tmp_path / name / "tls.key").write_bytes(pair.key_pem())
    (tmp_path / "..data").symlink_to("old")
    mounted = TlsFiles(tmp_path / "..data" / "tls.crt", tmp_path / "..data" / "tls.key")
    first, context = mounted.expires, mounted.context()
    told: list[str] = []
    mounted.watched.on_change = told.append
    assert mounted.context() is context
    (tmp_path / "..tmp").symlink_to("new")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert mounted.context() is not context
    assert mounted.expires > first
    assert told == ["reloaded"]


def test_a_start_with_a_pair_that_does_not_match_says_so_and_ends(
    start: Callable[..., Server], files: Files
) -> None:
    files.key.write_bytes(files.issue().key_pem())
    with pytest.raises(AssertionError, match=r"(?i)tls.key cannot be used.*mismatch"):
        start()


def test_only_forward_secret_authenticated_ciphers_are_offered(files: Files) -> None:
    for cipher in new_context(files.certificate, files.key).get_ciphers():
        assert cipher["aead"], cipher
        assert cipher["kea"] in {"kx-ecdhe", "kx-any"}, cipher


def write(files: Files, pair: authority.Pair) -> None:
    files.key.write_bytes(pair.key_pem())
    files.certificate.write_bytes(pair.certificate_pem())


def at(files: Files, begins: timedelta, lifetime: timedelta = timedelta(days=1)) -> authority.Pair:
    now = datetime.now(UTC) + begins
    return authority.issue(files.signer, now, lifetime, ["localhost"], ["127.0.0.1"])


@pytest.mark.parametrize(("begins", "why"), [(-2, "has expired"), (2, "is not valid before")])
def test_a_pair_that_is_not_valid_now_does_not_replace_one_that_is(
    files: Files, begins: int, why: str
) -> None:
    files.signer = authority.new_authority(datetime.now(UTC) - timedelta(days=9), timedelta(days=20))
    mounted = TlsFiles(files.certificate, files.key)
    before, context = mounted.expires, mounted.context()
    told: list[str] = []
    mounted.watched.on_change = told.append
    write(files, at(files, timedelta(days=begins)))
    assert mounted.context() is context
    assert why in mounted.watched.problem
    assert (mounted.expires, told) == (before, ["refused"])


def test_a_pair_that_is_put_in_its_place_while_it_is_read_does_not_let_an_expired_one_in(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.signer = authority.new_authority(datetime.now(UTC) - timedelta(days=9), timedelta(days=20))
    mounted = TlsFiles(files.certificate, files.key)
    context = mounted.context()
    good, made = files.issue(), list[ssl.SSLContext]()

    def new_context_of_the_expired(certificate: Path, key: Path) -> ssl.SSLContext:
        made.append(new_context(certificate, key))
        write(files, good)
        return made[-1]

    monkeypatch.setattr(tls, "new_context", new_context_of_the_expired)
    write(files, at(files, timedelta(days=-2)))
    assert mounted.context() is context
    assert mounted.context() is made[1]
    assert mounted.expires == good.certificate.not_valid_after_utc


def test_a_pair_that_becomes_valid_is_reloaded_then(files: Files) -> None:
    mounted = TlsFiles(files.certificate, files.key)
    context = mounted.context()
    # X.509 has whole seconds, and an authority dates a certificate back by a while.
    early = at(files, timedelta(minutes=10))
    wait = (early.certificate.not_valid_before_utc - datetime.now(UTC)).total_seconds()
    early = at(files, timedelta(minutes=10, seconds=3 - wait))
    write(files, early)
    assert mounted.context() is context
    deadline = time.monotonic() + PATIENCE
    while mounted.context() is context:
        assert time.monotonic() < deadline, mounted.watched.problem
        time.sleep(0.1)
    assert mounted.watched.problem == ""


def test_an_encrypted_key_is_refused_with_a_reason_and_nobody_is_asked_for_its_password(
    files: Files,
) -> None:
    mounted = TlsFiles(files.certificate, files.key)
    pair = files.issue()
    write(files, pair)
    key = serialization.load_pem_private_key(pair.key_pem(), None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    mounted.context()
    assert "the key is encrypted" in mounted.watched.problem
