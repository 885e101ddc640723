"""The parts of gunicorn that the worker leans on: when one goes, this says which."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from gunicorn.app.base import BaseApplication
from gunicorn.config import Config
from gunicorn.http import RequestParser, wsgi
from gunicorn.http.errors import NoMoreData
from gunicorn.util import write_error
from gunicorn.workers.base import Worker as Base

from webhook.server import Listener, ServerSettings, gunicorn_settings
from webhook.serving.connection import Sink

if TYPE_CHECKING:
    from tests.server.conftest import Files


def parameters(function: object) -> list[str]:
    assert callable(function)
    return list(inspect.signature(function).parameters)


def test_the_base_worker_has_what_the_worker_uses() -> None:
    assert parameters(Base.__init__) == ["self", "age", "ppid", "sockets", "app", "timeout", "cfg", "log"]
    for name in ("init_process", "notify", "handle_exit", "handle_error", "run"):
        assert callable(getattr(Base, name)), name
    assert parameters(Base.handle_error) == ["self", "req", "client", "addr", "exc"]
    source = inspect.getsource(Base)
    for text in (
        "self.PIPE = os.pipe()",
        "set_wakeup_fd(self.PIPE[1])",
        "self.wsgi = self.app.wsgi()",
        "self.run()",
    ):
        assert text in source, f"{text}: the loop is woken, or started, in another way now"


def test_a_handled_error_goes_out_by_sendall_alone() -> None:
    sink = Sink()
    write_error(sink, 400, "Bad Request", "why")
    assert sink.data.startswith(b"HTTP/1.1 400 Bad Request\r\nConnection: close")


def test_a_request_is_parsed_from_a_list_of_bytes_and_answered_into_a_sink() -> None:
    config = Config()
    raw = b"POST /path?q=1 HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab"
    request = next(RequestParser(config, [raw], ("127.0.0.1", 1)))
    sink = Sink()
    response, environ = wsgi.create(request, sink, ("127.0.0.1", 1), ("127.0.0.1", 2), config)
    assert environ["wsgi.input"].read() == b"ab"
    response.start_response("200 OK", [("Content-Length", "2")])
    response.write(b"cd")
    response.close()
    assert not response.should_close()
    response.force_close()
    assert response.should_close()
    assert sink.data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert sink.data.endswith(b"\r\n\r\ncd")


def test_an_incomplete_request_raises_no_more_data() -> None:
    parser = RequestParser(Config(), [b"GET / HTTP/1.1\r\n"], ("127.0.0.1", 1))
    try:
        next(parser)
    except (NoMoreData, StopIteration):
        return
    raise AssertionError("an incomplete request was taken")


def test_every_setting_is_known_to_gunicorn(files: Files) -> None:
    settings = ServerSettings(files.certificate, files.key)
    config = Config()
    for name, value in gunicorn_settings(settings, [settings.listener, Listener("::1", 0)]).items():
        config.set(name, value)
    assert config.address == [("0.0.0.0", 8443), ("::1", 0)]  # noqa: S104
    assert config.worker_class_str
    assert {"load_config", "load", "run", "wsgi"} <= set(dir(BaseApplication))
