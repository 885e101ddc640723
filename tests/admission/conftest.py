"""A client of the app with the packaged table."""

import pytest
from werkzeug.test import Client

from webhook.admission.views import review_views
from webhook.responses import App
from webhook.rules.source import TableSource
from webhook.state import CurrentState


@pytest.fixture(scope="session")
def client() -> Client:
    """Its app is stateless, so every test may use the same one."""
    return Client(App(review_views(CurrentState(TableSource()))))
