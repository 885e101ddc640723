"""A client of the app with the packaged table."""

import pytest
from flask.testing import FlaskClient

from webhook.admission.app import create_app
from webhook.rules.source import TableSource
from webhook.state import CurrentState


@pytest.fixture(scope="session")
def client() -> FlaskClient:
    """Its app is stateless, so every test may use the same one."""
    return create_app(CurrentState(TableSource())).test_client()
