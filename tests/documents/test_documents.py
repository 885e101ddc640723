"""Tests that documents are read as kubectl reads them, with the line of each field, and with precise errors.

``kubectl_yaml_cases.json`` has texts and the results of kubectl's Go libraries. The program
``kubectl_yaml_cases.go`` (k8s.io/apimachinery v0.36.3, sigs.k8s.io/yaml v1.6.0, go.yaml.in/yaml/v2
v2.4.3, Go 1.26) wrote it from a JSON list of the texts on its standard input. To add cases, append texts to
the list, and run the program in a Go module that requires this apimachinery.

``tests/plane/kubectl_yaml_cases.json`` has the results of the kubectl binary. A text is only in one of the
two files. Only some of the plain values also occur as keys or with tags.
"""

import json
import re

import pytest

from tests.documents.reading import KUBECTL_CASES, paths, values
from webhook import limits
from webhook.documents import Document, DocumentError, dump_yaml, expand_lists, read_documents
from webhook.objects.tree import Json, Path

OWN_REFUSALS = re.compile(
    r"twice in one map|merges '<<' here|the tag .* is not supported|ignores the text after|duplicate anchor"
    r"|does not read the key|may read .* as a number|refuses or rounds|write the character itself"
    r"|expected <document start>|did not find expected node content|only JSON here"
    r"|is not allowed in YAML|indent with spaces, not tabs|reads the escape"
)
"""Matches errors about texts that kubectl reads and the project refuses (ADR 0016)."""


KUBECTL_REFUSALS = re.compile(r"incompatible YAML|did not find expected (?:<document start>|node content)")
"""Matches errors of kubectl about directives and `...`. The project reads these texts."""


def error_of(text: str | bytes) -> str:
    with pytest.raises(DocumentError) as error:
        read_documents(text, "f")
    return str(error.value)


def test_every_case_is_read_as_kubectl_reads_it_or_is_refused_for_a_known_reason() -> None:
    differences: list[Json] = []
    read_count = 0
    for case in KUBECTL_CASES:
        kubectl_values = case.get("documents", []) if "error" not in case else None
        try:
            documents = read_documents(case["text"])
            if "items:" in case["text"]:  # kubectl prints the items of a List
                documents = expand_lists(documents)
            own_values = [document.value for document in documents]
        except DocumentError as error:
            if kubectl_values is not None and not OWN_REFUSALS.search(error.message):
                differences.append((case, error))
            continue
        read_count += 1
        if kubectl_values is None and KUBECTL_REFUSALS.search(case["error"]):
            continue
        if json.dumps(own_values, sort_keys=True) != json.dumps(kubectl_values, sort_keys=True):
            differences.append((case, own_values))
    assert differences == []
    assert len(KUBECTL_CASES) >= 320
    assert read_count >= 150


def lines_by_path(document: Document) -> dict[Path, int]:
    return {path: document.line_of(path) for path in paths(document.value)}


def test_each_field_has_its_line_with_merges_aliases_and_several_documents() -> None:
    text = (
        "# head\na: &x\n  b: 1\n  c:\n  - 2\n  - d: 3\n---  # next\n\ne:\n  f: {<<: {g: 1},\n   h: [0,\n1]}\n"
        "---\na: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n"
    )
    first, second, third = read_documents(text, "f.yaml")
    assert (first.line, second.line) == (2, 9)
    assert lines_by_path(first) == {
        (): 2, ("a",): 2, ("a", "b"): 3, ("a", "c"): 4, ("a", "c", 0): 5, ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
    }  # fmt: skip
    assert second.line_of(("e", "f", "g")) == 10
    assert second.line_of(("e", "f", "h", 1)) == 12
    assert second.line_of(("e", "f", "h", 1, "x")) == 12
    assert second.line_of(("e", "f", "a/b~")) == 10
    assert (third.line_of(("c", "b")), third.line_of(("c", "d"))) == (14, 17)


def test_half_a_surrogate_pair_in_json_is_read_as_kubectl_reads_it() -> None:
    """Protects users from the refusal of a text that kubectl reads. The text also has a whole pair."""
    text = r'{"a": "\ud83d\ude00 \ud83d x \udE00\\ud83d"}'
    assert values(text) == [{"a": "\U0001f600 \ufffd x \ufffd\\ud83d"}]


def test_each_field_has_its_line_in_json() -> None:
    (document,) = read_documents('\n{"a": 1, "\\u0062": [\n[], {"c\\"}":2}]}\n', "f.json")
    assert lines_by_path(document) == {
        (): 2, ("a",): 2, ("b",): 2, ("b", 0): 3, ("b", 1): 3, ("b", 1, 'c"}'): 3,
    }  # fmt: skip


def test_each_field_has_its_line_in_a_stream_of_json() -> None:
    """Protects the lines of findings in streams of JSON objects, which jq and kubectl print."""
    first, second = read_documents('\t{"a": "\\ud83d\\ude00",\n"b": 1}\n\n {"c":\n {"d": "\\/"}}\n', "f.json")
    assert lines_by_path(first) == {(): 1, ("a",): 1, ("b",): 2}
    assert lines_by_path(second) == {(): 4, ("c",): 4, ("c", "d"): 5}


def test_the_values_of_aliases_are_independent_copies() -> None:
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
def test_an_error_has_the_position_and_the_remedy(text: str | bytes, message: str) -> None:
    assert error_of(text).startswith(message)


def test_very_long_numbers_are_refused_and_very_long_words_are_read() -> None:
    for digits in ("9" * 100_000, "0x" + "9" * 100_000, "0" * 100_000, "1_" * 100_000, "." + "9" * 100_000):
        assert "number" in error_of(f"a: {digits}")
        assert values(f"a: {digits}z") == [{"a": f"{digits}z"}]
    assert "number" in error_of('{"a": ' + "9" * 100_000 + "}")


def test_one_hundred_levels_of_nesting_are_read() -> None:
    assert values("a: " + "[" * 99 + "]" * 99)
    assert values('{"a":' * 100 + "1" + "}" * 100)


def test_aliases_that_expand_to_a_long_text_are_refused() -> None:
    bomb = "a0: &a0 [x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
    )
    assert "aliases expand to a text that is too long" in error_of(bomb)
    long_alias = "a: &x " + "y" * 100_000 + "\nb: [" + ", ".join(["*x"] * 50) + "]"
    assert "aliases expand to a text that is too long" in error_of(long_alias)


def test_a_list_object_is_expanded_as_kubectl_expands_it() -> None:
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
def test_a_list_without_objects_and_a_document_without_a_kind_are_refused(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(message)):
        expand_lists(read_documents(text, "f"))


def test_written_yaml_looks_like_the_output_of_kubectl_get() -> None:
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


def test_a_value_that_occurs_twice_is_written_twice_without_an_alias() -> None:
    shared = {"a": [1]}
    assert "&" not in dump_yaml([shared, shared])


def test_the_error_about_three_dots_explains_the_dots() -> None:
    """Protects users who copy a job from the AWS documentation, which replaces omitted lines by dots."""
    with pytest.raises(DocumentError, match=r"'\.\.\.' stands for omitted lines"):
        read_documents("spec:\n  image: <image>\n  ...\nkind: MPIJob\n", "job")
