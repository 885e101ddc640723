"""What ``serve`` puts together: a table, the apps that answer by it, and the listeners they answer on."""

import logging.config
from functools import partial
from typing import NoReturn

import gevent
from prometheus_client import CONTENT_TYPE_LATEST
from werkzeug.wrappers import Response

from common import logs
from webhook import endpoints
from webhook.admission.views import review_views
from webhook.metrics import Metrics
from webhook.preview.views import preview_views
from webhook.responses import GET, App, Views
from webhook.rules.source import TableSource
from webhook.server import Application, Listener, TlsFiles
from webhook.serving.longwork import LongWork
from webhook.settings import Settings
from webhook.state import CurrentState
from webhook.work import BusyError, Work

REVIEW_MEMORY = 64 * 1024 * 1024
"""Bytes that a review may take. To decode the longest reserves 46 MiB, of which it touches a third."""
POLL_SECONDS = 1.0
"""Between two looks at the files of the table and the certificate."""

log = logging.getLogger("webhook.serve")


def run(settings: Settings) -> None:
    """Serve until told to stop.

    Raises:
        TableError: if the rule table is wrong.
        ValueError: if a setting or the certificate cannot be used.
    """
    # gunicorn installs handlers of its own unless its loggers are named.
    gunicorn = {"handlers": ["stderr"], "level": settings.log_level.upper(), "propagate": False}
    log_config = logs.config(settings.log_format, settings.log_level, {"gunicorn.error": gunicorn})
    logging.config.dictConfig(log_config)
    tls = TlsFiles(settings.tls_cert, settings.tls_key)
    state = CurrentState(TableSource(settings.rules), tls)
    more = [("127.0.0.1", settings.preview_port), (settings.host, settings.metrics_port)]
    listeners = [Listener(settings.host, settings.port)]
    listeners += [Listener(address, number, tls=False) for address, number in more if number is not None]
    made = partial(apps, settings, state)
    Application(made, listeners, tls, loglevel=settings.log_level, logconfig_dict=log_config).run()


def apps(settings: Settings, state: CurrentState) -> list[App]:
    """The app of each listener, made in the worker: counters and processes are its own."""
    metrics = Metrics(state)
    long_reviews, others = LongWork(memory=REVIEW_MEMORY), LongWork(nice=10, seconds=8.0)
    gevent.spawn(keep_fresh, state, others)
    previews = preview_views(state.tables, others)
    made: list[Views] = [
        {**review_views(state, metrics, long_reviews, others), **(previews if settings.preview else {})}
    ]
    if settings.preview_port is not None:
        made.append(previews)
    if settings.metrics_port is not None:
        made.append(
            {endpoints.METRICS: (GET, lambda _: Response(metrics.text(), content_type=CONTENT_TYPE_LATEST))}
        )
    return list(map(App, made))


def keep_fresh(state: CurrentState, work: Work) -> NoReturn:
    """Read changed files for as long as the process lives."""
    while True:
        gevent.sleep(POLL_SECONDS)
        try:
            state.refresh(work)
        except BusyError:
            log.debug("the rule table is read later: too much work is waiting")
        except Exception:
            log.exception("the files could not be looked at")
