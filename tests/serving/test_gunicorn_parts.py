"""Tests that gunicorn still has the parts that the worker uses."""

import inspect
from typing import Any

from gunicorn.app.base import BaseApplication
from gunicorn.config import Config
from gunicorn.http import RequestParser
from gunicorn.http.body import ChunkedReader
from gunicorn.workers.base_async import AsyncWorker
from gunicorn.workers.ggevent import GeventWorker

from tests.attack.pairs import Files
from webhook.server import Application, Listener, TlsFiles


def parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def test_the_gevent_worker_has_what_the_worker_uses() -> None:
    assert parameters(GeventWorker.handle) == ["self", "listener", "client", "addr"]
    assert parameters(GeventWorker.handle_request) == ["self", "listener_name", "req", "sock", "addr"]
    assert parameters(GeventWorker.handle_error) == ["self", "req", "client", "addr", "exc"]
    assert "self.patch()" in inspect.getsource(GeventWorker.init_process)
    loop = inspect.getsource(AsyncWorker.handle)
    for text in (
        "with self.timeout_ctx():",
        "req = next(parser)",
        "self.handle_request(listener_name, req, client, addr)",
        "self.handle_error(req, client, addr, e)",
        "util.close(client)",
    ):
        assert text in loop, f"{text}: a connection is served in another way now"


def test_gunicorn_ends_a_connection_silently_after_a_reset() -> None:
    assert "errno.ECONNRESET" in inspect.getsource(AsyncWorker.handle)


def parsed(raw: bytes) -> Any:
    return next(RequestParser(Config(), [raw], ("127.0.0.1", 1)))


def test_the_parser_has_length_and_chunking_before_the_body_is_read() -> None:
    assert parsed(b"GET / HTTP/1.1\r\n\r\n").body.reader.length == 0
    assert parsed(b"POST / HTTP/1.1\r\nContent-Length: 7\r\n\r\n").body.reader.length == 7
    assert callable(parsed(b"GET / HTTP/1.1\r\n\r\n").force_close)
    assert parsed(b"GET / HTTP/1.1\r\n\r\nmore").unreader.buf.getvalue() == b"more"
    chunked = parsed(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert isinstance(chunked.body.reader, ChunkedReader)


def test_gunicorn_has_every_setting_that_the_application_uses(files: Files) -> None:
    listeners = [Listener(), Listener("::1", 0)]
    config = Application(list, listeners, TlsFiles(files.certificate, files.key)).cfg
    assert config.address == [("0.0.0.0", 8443), ("::1", 0)]  # noqa: S104
    assert config.worker_class_str
    assert {"load_config", "load", "run", "wsgi"} <= set(dir(BaseApplication))
