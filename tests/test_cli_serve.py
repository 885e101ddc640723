"""``serve`` and ``review``, as processes and over real TLS, the way ``make run`` uses them."""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.helpers import mpijob
from tests.rules.tables import EXTENDS
from tests.waiting import PATIENCE
from webhook import client
from webhook.cli import main
from webhook.documents import dump_yaml


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certs")
    subprocess.run(
        [sys.executable, "-m", "certs", "dev", "--dir", directory], check=True, capture_output=True
    )
    return directory


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command(certificates: Path, port: int, *more: str) -> tuple[list[str], dict[str, str]]:
    """``serve`` with its certificate by option and its address by environment, which both work."""
    tls = ["--tls-cert", str(certificates / "tls.crt"), "--tls-key", str(certificates / "tls.key")]
    words = [sys.executable, "-m", "webhook", "serve", *tls, *more]
    own = {"ULTRASERVER_WEBHOOK_SERVE_HOST": "127.0.0.1", "ULTRASERVER_WEBHOOK_SERVE_PORT": str(port)}
    return words, {**os.environ, **own}


@dataclass
class Server:
    """A running ``serve``."""

    url: str
    ca: Path
    preview_port: int
    pid: int = 0

    def review(self, *arguments: str, text: str) -> Result:
        """The ``review`` command with a document on standard input."""
        words = ["review", "-", "--url", self.url, "--ca", str(self.ca), "--wait", f"{PATIENCE:.0f}"]
        return CliRunner().invoke(main, [*words, *arguments], input=text, catch_exceptions=False)


@contextmanager
def serving(certificates: Path, *more: str) -> Iterator[Server]:
    port, preview_port = free_port(), free_port()
    words, environment = command(certificates, port, "--preview-port", str(preview_port), *more)
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield Server(f"https://127.0.0.1:{port}/mutate", certificates / "ca.crt", preview_port, process.pid)
    finally:
        process.terminate()
        log, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, log.decode()
    assert b"Traceback" not in log
    # Every line is one JSON object.
    assert all(isinstance(json.loads(line), dict) for line in log.splitlines())


@pytest.fixture(scope="module")
def server(certificates: Path) -> Iterator[Server]:
    with serving(certificates) as running:
        assert running.review(text=dump_yaml(mpijob())).exit_code == 0  # it is ready then
        yield running


def test_review_shows_the_diff_and_the_rules_that_a_running_webhook_answers(server: Server) -> None:
    result = server.review(text=dump_yaml(mpijob()))
    assert result.exit_code == 0
    assert "+            node.kubernetes.io/instance-type: trn2u.48xlarge" in result.stdout
    assert "shape: four-node" in result.stdout
    assert "rules: ultraserver-nodes," in result.stdout
    assert "warning" not in result.stdout


def test_review_shows_warnings_and_denials(server: Server) -> None:
    assert "warning: 3 nodes form no pairs" in server.review(text=dump_yaml(mpijob(3))).stdout
    denied = mpijob(annotations={"ultraserver-webhook.io/node-config": "3"})
    result = server.review(text=dump_yaml(denied))
    assert "denied: /metadata/annotations/ultraserver-webhook.io/node-config" in result.stdout
    assert "+ " not in result.stdout


def test_review_sends_every_object_of_a_list(server: Server) -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [mpijob(2), mpijob(16)]}
    result = server.review("-n", "ml", text=dump_yaml(items))
    assert result.exit_code == 0
    assert result.stdout.index("shape: two-node") < result.stdout.index("shape: multi-node")
    assert "ml.train" in result.stdout


def test_review_of_no_object_exits_with_2(server: Server) -> None:
    result = server.review(text="hello\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: <stdin>:1:1: a Kubernetes object is a map")


def test_review_trusts_the_given_authority_and_no_other(server: Server, tmp_path: Path) -> None:
    other = tmp_path / "other"
    subprocess.run([sys.executable, "-m", "certs", "dev", "--dir", other], check=True, capture_output=True)
    found = Server(server.url, other / "ca.crt", 0).review(text=dump_yaml(mpijob()))
    assert found.exit_code == 2
    assert "certificate verify failed" in found.stderr


def test_review_of_a_path_that_is_not_there_tells_the_status(server: Server) -> None:
    found = Server(server.url + "d", server.ca, 0).review(text=dump_yaml(mpijob()))
    assert found.exit_code == 2
    assert "/mutated answered 404" in found.stderr


def test_review_wants_https(server: Server) -> None:
    found = Server(server.url.replace("https", "http"), server.ca, 0).review(text=dump_yaml(mpijob()))
    assert found.exit_code == 2
    assert "the URL must be https" in found.stderr


@pytest.mark.parametrize(
    "body",
    [
        b"hello",
        b"[]",
        b"{}",
        b'{"response": null}',
        b'{"response": {"allowed": false}}',
        b'{"response": {"allowed": true, "patch": "!"}}',
        b'{"response": {"allowed": true, "patch": "W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL3gifV0="}}',
    ],
)
def test_review_of_what_answers_as_no_webhook_does_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, certificates: Path, body: bytes
) -> None:
    monkeypatch.setattr(client, "_post", lambda *_: (200, body))
    found = Server("https://x", certificates / "ca.crt", 0).review(text=dump_yaml(mpijob()))
    assert found.exit_code == 2
    assert "answered no review that an API server would take" in found.stderr


def _preview(url: str) -> int:
    request = urllib.request.Request(url, data=dump_yaml(mpijob()).encode(), method="POST")  # noqa: S310
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
        assert json.load(answer)[0]["facts"]["shape"] == "four-node"
        return int(answer.status)


def test_the_preview_has_a_plain_listener_of_its_own_that_takes_no_reviews(server: Server) -> None:
    address = f"http://127.0.0.1:{server.preview_port}"
    assert _preview(f"{address}/preview") == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        _preview(f"{address}/mutate")
    assert refused.value.code == 404
    refused.value.close()


def test_serve_with_another_table_answers_by_it(certificates: Path, tmp_path: Path) -> None:
    table = tmp_path / "rules.yaml"
    table.write_text(EXTENDS + "shapes: [{name: few, workers: 4, nodeConfig: 1}]\n")
    with serving(certificates, "--rules", str(table)) as running:
        assert "shape: few" in running.review(text=dump_yaml(mpijob())).stdout


def test_serve_with_a_wrong_table_refuses_to_start_with_every_problem(
    certificates: Path, tmp_path: Path
) -> None:
    table = tmp_path / "rules.yaml"
    table.write_text(EXTENDS + "valeus: {}\nrules: [{name: X}]\n")
    words, environment = command(certificates, free_port(), "--rules", str(table))
    found = subprocess.run(
        words, env=environment, capture_output=True, check=False, text=True, timeout=PATIENCE
    )
    assert found.returncode == 2
    assert f"error: {table}:4: /valeus: unknown key 'valeus'" in found.stderr
    assert f"{table}:5: /rules/0/name: 'X' does not match" in found.stderr
    assert "the rule table is wrong in 2 places" in found.stderr
    assert "Traceback" not in found.stderr


def test_serve_with_a_key_that_is_not_the_certificates_refuses_to_start(
    certificates: Path, tmp_path: Path
) -> None:
    subprocess.run([sys.executable, "-m", "certs", "dev", "--dir", tmp_path], check=True, capture_output=True)
    words, environment = command(certificates, free_port(), "--tls-key", str(tmp_path / "tls.key"))
    found = subprocess.run(
        words, env=environment, capture_output=True, check=False, text=True, timeout=PATIENCE
    )
    assert found.returncode == 2
    assert found.stderr.startswith("error: ")
    assert "Traceback" not in found.stderr


def counted(port: int) -> dict[str, float]:
    """The counters that a scrape finds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs if name.split("{")[0].endswith(("_total", "_count"))}


def leaves(port: int, authority: Path) -> set[str]:
    """Serial numbers that twenty new connections are shown, which meet both workers."""
    context = ssl.create_default_context(cafile=authority)
    found = set()
    for _ in range(20):
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as sock,
        ):
            certificate = sock.getpeercert()
            assert certificate
            found.add(str(certificate["serialNumber"]))
    return found


def children(pid: int) -> list[int]:
    """The worker processes."""
    return [int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_two_workers_count_together_never_backwards_and_both_reload(
    certificates: Path, tmp_path: Path
) -> None:
    shutil.copytree(certificates, tmp_path, dirs_exist_ok=True)
    metrics_port = free_port()
    with serving(tmp_path, "--workers", "2", "--metrics-port", str(metrics_port)) as running:
        port = int(running.url.rsplit(":", 1)[1].partition("/")[0])
        before: dict[str, float] = {}
        for turn in range(12):
            assert running.review(text=dump_yaml(mpijob())).exit_code == 0
            found = counted(metrics_port)
            assert {name: value for name, value in before.items() if found.get(name, 0) < value} == {}
            before = found
            if turn == 5:
                os.kill(max(children(running.pid)), signal.SIGKILL)
        assert before['ultraserver_webhook_reviews_total{endpoint="mutate",verdict="allowed"}'] == 12
        old = leaves(port, tmp_path / "ca.crt")
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).unlink()
        renew = [sys.executable, "-m", "certs", "dev", "--dir", tmp_path]
        subprocess.run(renew, check=True, capture_output=True)
        new = leaves(port, tmp_path / "ca.crt")
        assert len(new) == 1
        assert not new & old
