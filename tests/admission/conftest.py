"""A client of the app with the packaged table."""

import pytest
from werkzeug.test import Client

from tests.admission.reviews import current_state
from webhook.admission.views import admission_blueprint
from webhook.app import create_app


@pytest.fixture(scope="session")
def client() -> Client:
    """Its app is stateless, so every test may use the same one."""
    return Client(create_app(admission_blueprint(current_state())))
