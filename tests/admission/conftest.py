"""A client of the app with the packaged table."""

import pytest
from werkzeug.test import Client

from tests.admission.reviews import current_state
from webhook.admission.views import review_views
from webhook.responses import App


@pytest.fixture(scope="session")
def client() -> Client:
    """Its app is stateless, so every test may use the same one."""
    return Client(App(review_views(current_state())))
