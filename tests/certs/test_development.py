"""Tests of ``python -m certs dev``, which creates a certificate for development."""

import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from certs.__main__ import main
from certs.development import DEFAULT_HOSTS, LIFETIME, make

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_missing_files_are_created_with_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "dev"
    assert make(directory, DEFAULT_HOSTS, NOW) == NOW + LIFETIME
    assert set(contents(directory)) == {"ca.crt", "tls.crt", "tls.key"}
    assert stat.S_IMODE((directory / "tls.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(directory / "tls.crt", directory / "tls.key")


def test_existing_files_are_replaced(tmp_path: Path) -> None:
    make(tmp_path, DEFAULT_HOSTS, NOW)
    before = contents(tmp_path)
    make(tmp_path, DEFAULT_HOSTS, NOW)
    assert all(before[name] != content for name, content in contents(tmp_path).items())
    assert stat.S_IMODE((tmp_path / "tls.key").stat().st_mode) == 0o600


def test_no_key_is_written_through_a_symlink_that_appears_after_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects users whose folder is writable by other users, who could redirect the key."""
    other_file = tmp_path / "other"
    other_file.write_bytes(b"")
    monkeypatch.setattr(Path, "unlink", lambda path, **_: path.symlink_to(other_file))
    with pytest.raises(FileExistsError):
        make(tmp_path / "dev", DEFAULT_HOSTS, NOW)
    assert not other_file.read_bytes()


def test_the_command_prints_its_result(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["dev", "--dir", str(tmp_path / "dev"), "--host", "name.example"])
    assert result.output.startswith(f"made {tmp_path}/dev/tls.crt; valid until ")


def test_the_command_fails_with_a_reason(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["dev", "--dir", str(tmp_path), "--host", "bücher.example"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: a name of the certificate is malformed")
    (tmp_path / "file").write_bytes(b"")
    result = CliRunner().invoke(main, ["dev", "--dir", str(tmp_path / "file" / "dev")])
    assert result.exit_code == 1
    assert "Not a directory" in result.output
