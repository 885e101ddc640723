"""Reading: what kubectl means, where it was written, and nothing but ``DocumentError`` with any input.

``kubectl_yaml_cases.json`` holds texts and what kubectl's own code made of them. It was made by
``kubectl_yaml_cases.go`` (k8s.io/apimachinery v0.36.3, sigs.k8s.io/yaml v1.6.0, go.yaml.in/yaml/v2
v2.4.3, Go 1.26) from a JSON list of the texts on its standard input. To add cases: append texts, and run it
in a module that requires that apimachinery. ``tests/plane/kubectl_yaml_cases.json`` was made by kubectl
itself. A text is in one of the two only, and tags and keys have a case for each way of writing them, not one
for each word.
"""

import json
import re

import pytest

from tests.documents.reading import KUBECTL, paths, values
from webhook import limits
from webhook.documents import Document, DocumentError, dump_yaml, expand_lists, read_documents
from webhook.objects.tree import Json, Path

DELIBERATE = re.compile(
    r"twice in one map|merges '<<' here|the tag .* is not supported|ignores the text after|duplicate anchor"
    r"|does not read the key|may read .* as a number|refuses or rounds|write the character itself"
    r"|expected <document start>|did not find expected node content|only JSON here"
    r"|is not allowed in YAML|indent with spaces, not tabs|reads the escape"
)
"""What ADR 0016 says is refused although kubectl takes it."""


LEFT_TO_KUBECTL = re.compile(r"incompatible YAML|did not find expected (?:<document start>|node content)")
"""What kubectl refuses and says clearly, of directives and `...`, and is read here."""


def refusal(text: str | bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        read_documents(text, "f")
    return str(caught.value)


def test_every_case_reads_as_in_kubectl_or_is_refused_for_a_stated_reason() -> None:
    wrong: list[Json] = []
    read = 0
    for case in KUBECTL:
        theirs = case.get("documents", []) if "error" not in case else None
        try:
            documents = read_documents(case["text"])
            if "items:" in case["text"]:  # the program prints what is in a List
                documents = expand_lists(documents)
            ours = [document.value for document in documents]
        except DocumentError as error:
            if theirs is not None and not DELIBERATE.search(error.message):
                wrong.append((case, error))
            continue
        read += 1
        if theirs is None and LEFT_TO_KUBECTL.search(case["error"]):
            continue
        if json.dumps(ours, sort_keys=True) != json.dumps(theirs, sort_keys=True):
            wrong.append((case, ours))
    assert wrong == []
    assert len(KUBECTL) >= 320
    assert read >= 150


def lines(document: Document) -> dict[Path, int]:
    return {path: document.line_of(path) for path in paths(document.value)}


def test_every_line_is_known_through_merges_aliases_and_documents() -> None:
    text = (
        "# head\na: &x\n  b: 1\n  c:\n  - 2\n  - d: 3\n---  # next\n\ne:\n  f: {<<: {g: 1},\n   h: [0,\n1]}\n"
        "---\na: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n"
    )
    first, second, third = read_documents(text, "f.yaml")
    assert (first.line, second.line) == (2, 9)
    assert lines(first) == {
        (): 2, ("a",): 2, ("a", "b"): 3, ("a", "c"): 4, ("a", "c", 0): 5, ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
    }  # fmt: skip
    assert second.line_of(("e", "f", "g")) == 10
    assert second.line_of(("e", "f", "h", 1)) == 12
    assert second.line_of(("e", "f", "h", 1, "x")) == 12
    assert second.line_of(("e", "f", "a/b~")) == 10
    assert (third.line_of(("c", "b")), third.line_of(("c", "d"))) == (14, 17)


def test_half_a_surrogate_pair_in_json_is_read_as_kubectl_reads_it() -> None:
    """Protects people from a refusal of what kubectl takes, and of whole pairs in the same text."""
    text = r'{"a": "\ud83d\ude00 \ud83d x \udE00\\ud83d"}'
    assert values(text) == [{"a": "\U0001f600 \ufffd x \ufffd\\ud83d"}]


def test_every_line_is_known_in_json() -> None:
    (document,) = read_documents('\n{"a": 1, "\\u0062": [\n[], {"c\\"}":2}]}\n', "f.json")
    assert lines(document) == {
        (): 2, ("a",): 2, ("b",): 2, ("b", 0): 3, ("b", 1): 3, ("b", 1, 'c"}'): 3,
    }  # fmt: skip


def test_every_line_is_known_in_a_stream_of_json() -> None:
    """Protects the lines of findings in what jq and kubectl print one after the other."""
    first, second = read_documents('\t{"a": "\\ud83d\\ude00",\n"b": 1}\n\n {"c":\n {"d": "\\/"}}\n', "f.json")
    assert lines(first) == {(): 1, ("a",): 1, ("b",): 2}
    assert lines(second) == {(): 4, ("c",): 4, ("c", "d"): 5}


def test_aliases_share_nothing() -> None:
    (value,) = values("a: &x {b: [1]}\nc: *x\nd: {<<: *x}\n")
    value["c"]["b"].append(2)
    value["d"]["b"].append(3)
    assert value == {"a": {"b": [1]}, "c": {"b": [1, 2]}, "d": {"b": [1, 3]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f:3:1: key 'a' is twice in one map"),
        ('{"a": 1,\n"b": {"c": 1,\n "c": 2}}', "f:3:2: key 'c' is twice in one map"),
        ('{"a": 1e999}', "f:1:7: kubectl refuses or rounds the number 1e999: quote it, or"),
        ("a: [.inf]", "f:1:5: kubectl may read .inf as a number: quote it if it is text"),
        ("a:\n- !foo b", "f:2:3: the tag !foo is not supported: remove it"),
        ("a: ! 12", "f:1:4: the tag ! is not supported"),
        ("a: !!int x", "f:1:4: the tag !!int is not supported"),
        ("a: *x", "f:1:4: found undefined alias: write the anchor before the alias"),
        ("a: &x [*x]", "f:1:4: nested deeper than 100 levels"),
        (
            "a: &x 1\nb: &x 2",
            "f:2:4: second occurrence, found duplicate anchor; first occurrence: use another",
        ),
        ("a: {b: 1, <<: {b: 2}}", "f:1:11: kubectl merges '<<' here in its own way"),
        ("a: 1\n...\nb: 2", "f:2:1: kubectl ignores the text after '...'"),
        ("--- a", "f:1:4: only a comment may follow '---'"),
        ("a: \x07", r"f:1:4: '\x07' is not allowed in YAML: remove it"),
        (b"a: 1\nb: \xff", "f:2:4: the byte 0xff is not UTF-8"),
        ("a: \ud800", "f:1:4: the byte 0xed is not UTF-8"),
        (
            'a: "\\ud800"',
            "f:1:7: found invalid Unicode character escape code, while parsing a quoted scalar: write the",
        ),
        (
            "\na: " + "x" * (limits.TEXT + 1),
            f"f:2:4: the text has {limits.TEXT + 1} characters, {limits.TEXT} is",
        ),
        ("[" * 101 + "]" * 101, "f:1:101: nested deeper than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "f:1:501: nested deeper than 100 levels"),
        ('{"a":' * 90000, "f:1:501: nested deeper than 100 levels"),
        ("a: 1\n{b: c}: x", "f:2:1: a map or a list cannot be a key"),
        ("~: x", 'f:1:1: kubectl does not read the key ~ as text: write "~"'),
        ("on: x", 'f:1:1: kubectl does not read the key on as text: write "on"'),
        ("a: 1\r---\nb: 2", "f:1:5: '\\r' is not allowed in YAML"),
        ("a: |\n \t\n  x", "f:2:2: found a tab"),
        ('a: "\\UFFFFFFFF"', "f:1:"),
        ("x: &x [[]]\nz: " + "[" * 98 + "*x" + "]" * 98, "f:1:8: nested deeper than 100 levels"),
        ('{"a": 1} {"b": 2}', "f:1:10: did not find expected <document start>: write a line '---' between"),
        ('{"a": 1,\n"b": 2,, "c": 3', "f:2:8: "),
        ('a: 1\n"\\/": 2', r"f:2:1: kubectl reads the escape \/ in JSON only"),
        ('{"a": 1}\n{"b": 2}\n---\nc: 3', "f:3:1: kubectl reads only JSON here"),
        ('{"a": 1}\n{"b": 2}\n{"c": 3,}', "f:3:9: kubectl reads only JSON here"),
        ('{"a": 1}\n{"b": 2}\n{"c": NaN}', "f:3:1: kubectl reads only JSON here"),
        ('{"a": 1} # c', "f:1:10: kubectl reads only JSON here"),
        ('{"a": NaN, "b": "\\ud83d\\ude00"}', "f:1:20: found invalid Unicode character"),
        ('{"a": "\\ud83d\\ude00",}', "f:1:10: found invalid Unicode character"),
    ],
)
def test_a_refusal_names_the_place_and_the_way_out(text: str | bytes, message: str) -> None:
    assert refusal(text).startswith(message)


def test_numbers_of_any_length_stay_cheap() -> None:
    for digits in ("9" * 100_000, "0x" + "9" * 100_000, "0" * 100_000, "1_" * 100_000, "." + "9" * 100_000):
        assert "number" in refusal(f"a: {digits}")
        assert values(f"a: {digits}z") == [{"a": f"{digits}z"}]
    assert "number" in refusal('{"a": ' + "9" * 100_000 + "}")


def test_one_hundred_levels_are_read() -> None:
    assert values("a: " + "[" * 99 + "]" * 99)
    assert values('{"a":' * 100 + "1" + "}" * 100)


def test_an_alias_bomb_is_refused_before_it_costs_anything() -> None:
    bomb = "a0: &a0 [x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
    )
    assert "aliases expand to a text that is too long" in refusal(bomb)
    long = "a: &x " + "y" * 100_000 + "\nb: [" + ", ".join(["*x"] * 50) + "]"
    assert "aliases expand to a text that is too long" in refusal(long)


def test_lists_are_opened_as_kubectl_opens_them() -> None:
    text = (
        "kind: List\napiVersion: v1\nitems:\n- {kind: A, apiVersion: v1}\n"
        "- kind: BList\n  apiVersion: w/v1\n  items:\n  - metadata: {name: b}\n"
        "- {kind: C, apiVersion: v1}\n---\n{kind: D, apiVersion: v1}\n---\n"
        '{"kind": "List", "items": null}\n'
    )
    expanded = expand_lists(read_documents(text, "f"))
    assert [document.value for document in expanded] == [
        {"kind": "A", "apiVersion": "v1"},
        {"metadata": {"name": "b"}, "kind": "B", "apiVersion": "w/v1"},
        {"kind": "C", "apiVersion": "v1"},
        {"kind": "D", "apiVersion": "v1"},
    ]
    assert [document.line for document in expanded] == [4, 8, 9, 11]
    assert expanded[1].line_of(("metadata", "name")) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: List\nitems: {}", "f:2:1: items is {}, not a list"),
        ("replicas: 4", "f:1:1: this is not a Kubernetes object: it has no kind; add it"),
        ("apiVersion: v1\nKind: Pod", "it has no kind; did you mean 'kind' for 'Kind'?"),
        ("apiVersion: v1\nkind: 5", "it has no kind; add it"),
        ('{"items": [\n 1]}', "f:2:1: a Kubernetes object is a map"),
    ],
)
def test_a_list_of_something_else_is_refused(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(message)):
        expand_lists(read_documents(text, "f"))


def test_written_yaml_looks_like_kubectl_get() -> None:
    value = {
        "metadata": {"name": "x", "labels": {}, "creationTimestamp": None, "at": "2026-01-01T00:00:00Z"},
        "spec": [{"yes": "on", "n": "8", "time": "1:30", "f": 0.5, "args": ["a", "b c", "- d", ""]}],
        "script": "set -e\necho done\n",
        "empty": [],
    }
    assert dump_yaml(value) == (
        "metadata:\n  name: x\n  labels: {}\n  creationTimestamp: null\n"
        '  at: "2026-01-01T00:00:00Z"\n'
        'spec:\n- "yes": "on"\n  "n": "8"\n  time: "1:30"\n  f: 0.5\n  args:\n  - a\n  - b c\n'
        "  - '- d'\n  - \"\"\n"
        "script: |\n  set -e\n  echo done\nempty: []\n"
    )


def test_what_is_shared_in_memory_is_written_out_twice() -> None:
    shared = {"a": [1]}
    assert "&" not in dump_yaml([shared, shared])


def test_three_dots_in_a_text_from_a_document_are_explained() -> None:
    """Protects who pastes a job from AWS's page, where dots stand for lines that were left out."""
    with pytest.raises(DocumentError, match=r"'\.\.\.' stands for omitted lines"):
        read_documents("spec:\n  image: <image>\n  ...\nkind: MPIJob\n", "job")
