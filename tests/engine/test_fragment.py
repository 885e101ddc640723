"""What was taken from a template has the form of a rule's fragment again."""

from webhook.undo.putback import fragment
from webhook.undo.takeback import Taken


def test_what_amended_a_container_of_the_user_is_an_amendment_again() -> None:
    path = ("spec", "containers", "[main]", "tty")
    assert fragment([Taken(path, value=True, element=False)]) == {
        "spec": {"containers": [{"name": "main", "tty": True}]}
    }


def test_what_amended_several_containers_stays_apart_and_behind_what_was_added_whole() -> None:
    def amended(name: str, value: str) -> Taken:
        return Taken(("spec", "containers", f"[{name}]", "args"), value, element=True)

    whole = Taken(("spec", "containers"), {"name": "a", "image": "i"}, element=True)
    parts = [amended("a", "1"), amended("b", "2"), amended("c", "3"), amended("a", "4")]
    amendments = [
        {"name": name, "args": args} for name, args in (("a", ["1", "4"]), ("b", ["2"]), ("c", ["3"]))
    ]
    assert fragment([*parts, whole]) == {"spec": {"containers": [whole.value, *amendments]}}
