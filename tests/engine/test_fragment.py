"""What was taken from a template has the form of a rule's fragment again, and is put back as it was added."""

from webhook.objects.merge import Merge
from webhook.objects.putback import fragment, put_back
from webhook.objects.record import Record, write
from webhook.objects.takeback import Budget, Taken
from webhook.objects.tree import Json


def put_back_of(mine: Json, *fragments: Json) -> tuple[Json, Json]:
    """Returns a template with fragments added, and what happens to an update that takes them out."""
    merge, stored = Merge(()), mine
    for one in fragments:
        stored = merge.apply(stored, one)
    stored = write(stored, Record(added=merge.additions))
    return stored, put_back(stored, mine, (), Budget(mine))


def test_what_amended_a_container_of_the_user_is_an_amendment_again() -> None:
    path = ("spec", "containers", "[main]", "tty")
    assert fragment(Taken(path, value=True, element=False)) == {
        "spec": {"containers": [{"name": "main", "tty": True}]}
    }


def test_what_amended_several_containers_comes_behind_what_was_added_whole() -> None:
    def amended(value: str) -> Json:
        return {"spec": {"containers": [{"name": name, "env": [{"name": value}]} for name in "abc"]}}

    whole = {"spec": {"containers": [{"name": "a", "image": "i"}]}}
    mine = {"spec": {"containers": [{"name": "b"}, {"name": "c", "image": "j"}]}}
    stored, again = put_back_of(mine, whole, amended("X"), amended("Y"))
    assert again == stored


def test_expressions_of_every_term_come_back_in_their_order() -> None:
    def expressions(*keys: str) -> Json:
        return [{"key": key, "operator": "Exists"} for key in keys]

    def terms(*terms: Json) -> Json:
        of = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": of}}
        return {"spec": {"affinity": affinity}}

    mine = terms(expressions("a"), expressions("b", "c"))
    stored, again = put_back_of(mine, terms(expressions("x", "y")), terms(expressions("z")))
    assert again == stored
    stored, again = put_back_of({"spec": {}}, terms(expressions("x", "y")))
    assert again == stored
