"""``python -m certs dev``."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from certs.__main__ import main
from certs.development import DEFAULT_HOSTS, KEEP_FOR, LIFETIME, ensure

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_files_are_made_when_missing_with_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "dev"
    assert ensure(directory, DEFAULT_HOSTS, NOW) == ("there was no ca.crt", NOW + LIFETIME)
    assert set(contents(directory)) == {"ca.crt", "tls.crt", "tls.key"}
    assert stat.S_IMODE((directory / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(directory / "tls.crt", directory / "tls.key")


def test_good_files_are_kept(tmp_path: Path) -> None:
    ensure(tmp_path, [*DEFAULT_HOSTS, "Extra.example"], NOW)
    before = contents(tmp_path)
    for hosts in (DEFAULT_HOSTS, ["0:0:0:0:0:0:0:1"], ["Extra.example"]):
        assert ensure(tmp_path, hosts, NOW + LIFETIME - KEEP_FOR) == ("", NOW + LIFETIME)
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        ("ca.crt", "there was no ca.crt"),
        ("tls.key", "there was no tls.key"),
        ("garbage", "its certificate or key cannot be read"),
        ("other", "tls.crt was not signed by ca.crt"),
        ("old", "it was valid until"),
        ("host", "it lacked another.example"),
    ],
)
def test_files_that_no_longer_serve_are_made_again_with_the_reason(
    tmp_path: Path, spoil: str, why: str
) -> None:
    ensure(tmp_path, DEFAULT_HOSTS, NOW)
    hosts, now = [*DEFAULT_HOSTS], NOW
    if spoil in {"ca.crt", "tls.key"}:
        (tmp_path / spoil).unlink()
    elif spoil == "garbage":
        (tmp_path / "tls.crt").write_bytes(b"garbage")
    elif spoil == "other":
        ensure(tmp_path / "other", DEFAULT_HOSTS, NOW)
        (tmp_path / "ca.crt").write_bytes((tmp_path / "other" / "ca.crt").read_bytes())
    elif spoil == "old":
        now = NOW + LIFETIME - KEEP_FOR + timedelta(seconds=1)
    else:
        hosts.append("another.example")
    assert why in ensure(tmp_path, hosts, now)[0]
    assert not ensure(tmp_path, hosts, now)[0]


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    run = CliRunner()
    arguments = ["dev", "--dir", str(tmp_path / "dev"), "--host", "name.example"]
    assert run.invoke(main, arguments).output.startswith(
        f"made {tmp_path}/dev/tls.crt (there was no ca.crt); valid"
    )
    assert run.invoke(main, arguments).output.startswith(
        f"kept {tmp_path}/dev/tls.crt (it is valid for these"
    )
    assert "it lacked second.example" in run.invoke(main, [*arguments, "--host", "second.example"]).output


def test_the_command_fails_with_a_sentence(tmp_path: Path) -> None:
    failed = CliRunner().invoke(main, ["dev", "--dir", str(tmp_path), "--host", "bücher.example"])
    assert failed.exit_code == 1
    assert failed.output.startswith("Error: a name of the certificate is malformed")
    (tmp_path / "file").write_bytes(b"")
    failed = CliRunner().invoke(main, ["dev", "--dir", str(tmp_path / "file" / "dev")])
    assert failed.exit_code == 1
    assert "Not a directory" in failed.output
