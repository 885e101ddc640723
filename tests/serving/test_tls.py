"""Tests of TLS: versions, resumption, and certificate files that change while the server runs."""

import json
import re
import ssl
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from common import watched
from common.times import stamp
from common.watched import UnusableError
from tests.attack.pairs import DAY, Files, encrypted_key, unusable_pairs
from tests.attack.processes import children
from tests.serving.conftest import Server
from webhook import messages
from webhook.serving import tls
from webhook.serving.tls import TlsFiles, new_context


@pytest.fixture
def server(shared: Callable[..., Server]) -> Server:
    return shared()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_versions_before_tls_1_2_are_refused(server: Server, version: ssl.TLSVersion) -> None:
    old = server.files.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = version
        old.maximum_version = version
    old.set_ciphers("ALL:@SECLEVEL=0")  # so that the server refuses, and not the client
    with pytest.raises(ssl.SSLError, match=r"ALERT_PROTOCOL_VERSION"):
        server.tls(old)
    server.wait_for("UNSUPPORTED_PROTOCOL")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_sessions_are_resumed_with_http_1_1_chosen(server: Server, version: ssl.TLSVersion) -> None:
    context = server.files.client_context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    session = None
    for attempt in range(4):
        sock = server.tls(context, session=session)
        assert sock.session_reused is (attempt > 0)
        assert sock.selected_alpn_protocol() == "http/1.1"
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 200"  # in TLS 1.3, the ticket arrives with the first bytes
        session = sock.session


def test_only_forward_secret_authenticated_ciphers_are_offered(files: Files) -> None:
    for cipher in new_context(files.certificate, files.key).get_ciphers():
        assert cipher["aead"], cipher
        assert cipher["kea"] in {"kx-ecdhe", "kx-any"}, cipher


def test_a_changed_pair_is_reloaded_without_a_restart_and_open_connections_stay_open(server: Server) -> None:
    with server.client() as before:
        assert before.get("/tls") == 200
        sock = before.connection.sock
        for reload in range(1, 4):
            pair = server.files.issue()
            server.files.write(pair)
            certificate = server.tls().getpeercert()
            assert certificate is not None
            assert int(str(certificate["serialNumber"]), 16) == pair.certificate.serial_number
            assert before.get("/tls") == 200
            assert json.loads(before.content)["reloads"] == reload
        assert before.connection.sock is sock
    assert server.workers == {*children(server.process.pid)}


class Mounted:
    """A certificate and its key in files, the server's `TlsFiles`, and a clock that the test sets."""

    def __init__(self, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = datetime.now(UTC)
        monkeypatch.setattr(tls, "datetime", Mock(now=lambda _: self.now))
        monkeypatch.setattr(tls, "time", Mock(time=self.unix_time))
        monkeypatch.setattr(watched, "time", Mock(time=self.unix_time))
        self.files, self.tls = files, TlsFiles(files.certificate, files.key)
        self.changes: list[str] = []
        self.tls.watched.on_change = self.changes.append

    def unix_time(self) -> float:
        """Returns the time of the clock, like ``time.time``."""
        return self.now.timestamp()

    @property
    def problem(self) -> str:
        """The reason why the files cannot be used."""
        return self.tls.watched.problem


@pytest.fixture
def mounted(files: Files, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    return Mounted(files, monkeypatch)


UNUSABLE, MISSING, MISMATCH = "cannot be used", "No such file", "(?i)mismatch"
REASONS = {
    "expired": "expired on",
    "not yet valid": "is not valid before",
    "an encrypted key": messages.ENCRYPTED_KEY,
    "half a certificate": UNUSABLE,
    "half a key": UNUSABLE,
    "the certificate only": MISMATCH,
    "the key only": MISMATCH,
    "the other way round": UNUSABLE,
    "garbage": UNUSABLE,
    "empty": UNUSABLE,
    "no certificate": MISSING,
    "no key": MISSING,
    "no files": MISSING,
}


@pytest.mark.parametrize("bad", REASONS)
def test_an_unusable_pair_is_logged_and_counted_and_the_old_pair_stays_in_use(
    mounted: Mounted, bad: str, caplog: pytest.LogCaptureFixture
) -> None:
    files, context, expires = mounted.files, mounted.tls.context(), mounted.tls.expires
    for path, content in zip((files.certificate, files.key), unusable_pairs(files)[bad], strict=True):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    assert [mounted.tls.context() for _ in range(3)] == [context] * 3
    assert mounted.tls.expires == expires
    assert re.search(REASONS[bad], mounted.problem)
    assert str(files.certificate) in mounted.problem
    assert mounted.changes == ["refused"]
    assert caplog.text.count("keeping TLS certificate") == 1
    files.write(files.issue())
    assert mounted.tls.context() is not context
    assert (mounted.problem, mounted.changes) == ("", ["refused", "reloaded"])


def test_a_pair_that_does_not_match_and_an_encrypted_key_are_errors_at_the_start(files: Files) -> None:
    for key, reason in (
        (files.issue().key_pem(), r"(?i)tls.key cannot be used.*mismatch"),
        (encrypted_key(files.issue()), messages.ENCRYPTED_KEY),
    ):
        files.key.write_bytes(key)
        with pytest.raises(UnusableError, match=reason):
            TlsFiles(files.certificate, files.key)


def test_a_mounted_secret_whose_link_changes_is_reloaded(files: Files, tmp_path: Path) -> None:
    for name in ("old", "new"):
        pair = files.issue(lifetime=DAY if name == "old" else DAY * 2)
        (tmp_path / name).mkdir()
        (tmp_path / name / "tls.crt").write_bytes(pair.certificate_pem())
        (tmp_path / name / "tls.key").write_bytes(pair.key_pem())
    (tmp_path / "..data").symlink_to("old")
    secret = TlsFiles(tmp_path / "..data" / "tls.crt", tmp_path / "..data" / "tls.key")
    expires, context = secret.expires, secret.context()
    assert secret.context() is context
    (tmp_path / "..tmp").symlink_to("new")
    (tmp_path / "..tmp").replace(tmp_path / "..data")
    assert secret.context() is not context
    assert secret.expires > expires


def test_an_expired_pair_that_replaces_a_valid_pair_during_a_read_is_not_used(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, context = mounted.files, mounted.tls.context()
    good, expired = files.issue(), files.issue(DAY * -5)

    def new_context_of_the_expired(certificate: Path, key: Path) -> ssl.SSLContext:
        files.write(expired)
        return new_context(certificate, key)

    with monkeypatch.context() as while_it_is_read:
        while_it_is_read.setattr(tls, "new_context", new_context_of_the_expired)
        files.write(good)
        assert mounted.tls.context() is context
    assert mounted.problem == messages.changed_while_read(files.certificate)
    assert mounted.tls.context() is context
    end = stamp(expired.certificate.not_valid_after_utc)
    assert mounted.problem == messages.expired(files.certificate, end)
    files.write(good)
    assert mounted.tls.context() is not context
    assert mounted.tls.expires == good.certificate.not_valid_after_utc


def test_a_pair_is_reloaded_when_it_becomes_valid(mounted: Mounted) -> None:
    # The new pair expires later than the pair in use, which is kept until the new pair is valid.
    early, context = mounted.files.issue(timedelta(hours=12)), mounted.tls.context()
    begins = early.certificate.not_valid_before_utc
    mounted.files.write(early)
    mounted.now = begins - timedelta(seconds=1)
    assert mounted.tls.context() is context
    assert mounted.problem == messages.not_valid_yet(mounted.files.certificate, stamp(begins))
    mounted.now = begins
    assert mounted.tls.context() is not context
    assert (mounted.problem, mounted.tls.expires) == ("", early.certificate.not_valid_after_utc)


@pytest.mark.parametrize("begins", [DAY * -5, DAY * 2], ids=["expired", "not yet valid"])
def test_once_the_pair_in_use_has_expired_any_other_pair_replaces_it(
    mounted: Mounted, begins: timedelta
) -> None:
    context, in_use = mounted.tls.context(), mounted.tls.expires
    mounted.files.write(mounted.files.issue(begins))
    assert mounted.tls.context() is context
    mounted.now = in_use
    assert mounted.tls.context() is not context
