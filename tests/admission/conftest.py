"""The client of the admission endpoints with the packaged table."""

import pytest
from werkzeug.test import Client

from tests.admission.reviews import current_state
from webhook.admission.views import admission_blueprint
from webhook.app import create_app


@pytest.fixture(scope="session")
def client() -> Client:
    """Returns one client for all tests, because the application has no state."""
    return Client(create_app(admission_blueprint(current_state())))
