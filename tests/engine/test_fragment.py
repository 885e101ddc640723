"""What was taken from a template has the form of a rule's fragment again."""

from webhook.engine.putback import fragment
from webhook.engine.takeback import Taken


def test_what_amended_a_container_of_the_user_is_an_amendment_again() -> None:
    path = ("spec", "containers", "[main]", "tty")
    assert fragment([Taken(path, value=True, element=False)]) == {
        "spec": {"containers": [{"name": "main", "tty": True}]}
    }
