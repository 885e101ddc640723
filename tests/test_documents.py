"""Reading: what kubectl means, where it was written, and nothing but ``DocumentError`` whatever comes in.

``data/kubectl_yaml_cases.json`` holds texts and what kubectl's own code made of them. It was made by
``data/kubectl_yaml_cases.go`` (k8s.io/apimachinery v0.36.3, sigs.k8s.io/yaml v1.6.0, go.yaml.in/yaml/v2
v2.4.3, Go 1.26) from a JSON list of the texts on its standard input. To add cases: append texts, and run it
in a module that requires that apimachinery. ``cluster/kubectl_yaml_cases.json`` was made by kubectl itself.
"""

import json
import math
import re
from pathlib import Path

import pytest
import yaml

from webhook.documents import DocumentError, Json, dump_yaml, expand_lists, read_documents, yaml_text

KUBECTL = json.loads((Path(__file__).parent / "data/kubectl_yaml_cases.json").read_text())

DELIBERATE = re.compile(
    r"twice in one map|is written before '<<'|is not supported|kubectl drops what follows|is not JSON"
    r"|too large for a float64|half of a surrogate pair|may follow an object|expected '?<document start>"
)
"""What the package's docstring says it refuses although kubectl takes it."""


@pytest.fixture(params=["CSafeLoader", "SafeLoader"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(yaml_text, "LOADER", getattr(yaml, request.param))
    return str(request.param)


def values(text: str | bytes) -> list[Json]:
    return [document.value for document in read_documents(text)]


def refusal(text: str | bytes) -> str:
    with pytest.raises(DocumentError) as caught:
        read_documents(text, "f")
    return str(caught.value)


def as_received(value: Json) -> Json:
    """The number types of Go's decoder, which has float64 beyond int64."""
    if isinstance(value, dict):
        return {key: as_received(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_received(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def test_every_case_reads_as_in_kubectl_or_is_refused_for_a_stated_reason(loader: str) -> None:
    wrong = []
    for case in KUBECTL:
        theirs = None if "error" in case else [as_received(item) for item in case.get("documents", [])]
        try:
            ours = values(case["text"])
        except DocumentError as error:
            tabs = loader == "SafeLoader" and r"'\t'" in error.message  # PyYAML's parser is strict about them
            if theirs is not None and not tabs and not DELIBERATE.search(error.message):
                wrong.append((case, error))
            continue
        if json.dumps(ours, sort_keys=True) != json.dumps(theirs, sort_keys=True):
            wrong.append((case, ours))
    assert wrong == []
    assert len(KUBECTL) > 800


def test_what_the_kubectl_program_printed_is_what_is_read(loader: str) -> None:
    assert loader
    recorded = Path(__file__).parent / "cluster/kubectl_yaml_cases.json"
    for case in json.loads(recorded.read_text())["cases"]:
        if "error" in case or "namespace: default" not in case["yaml"]:  # which kubectl would add
            continue
        try:
            ours = [document.value for document in expand_lists(read_documents(case["yaml"]))]
        except DocumentError as error:
            assert DELIBERATE.search(error.message)  # noqa: PT017 - most cases raise nothing
        else:
            theirs = as_received(case.get("documents", [case.get("json")]))
            assert json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def test_every_line_is_known_through_merges_aliases_and_documents(loader: str) -> None:
    assert loader
    text = (
        "# head\na: &x\n  b: 1\n  c:\n  - 2\n  - d: 3\n---  # next\n\ne:\n  f: {<<: {g: 1},\n   h: [0,\n1]}\n"
    )
    first, second = read_documents(text, "f.yaml")
    assert (first.line, second.line) == (2, 9)
    assert dict(first.lines) == {
        (): 2,
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 4,
        ("a", "c", 0): 5,
        ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
    }
    assert second.lines["e", "f", "g"] == 10
    assert second.lines["e", "f", "h", 1] == 12
    assert second.where(("e", "f", "h", 1)) == "f.yaml:12: /e/f/h/1"
    assert second.where(("e", "f", "a/b~")) == "f.yaml:10: /e/f/a~1b~0"
    assert second.where() == "f.yaml:9"
    assert len(second.lines) == 7
    with pytest.raises(KeyError):
        second.lines["e", "f", "h", 1, "x"]


def test_every_line_is_known_in_json() -> None:
    first, second = read_documents('\n{"a": 1, "\\u0062": [\n[], {"c\\"}":2}]}\n {"d":3}', "f.json")
    assert dict(first.lines) == {
        (): 2, ("a",): 2, ("b",): 2, ("b", 0): 3, ("b", 1): 3, ("b", 1, 'c"}'): 3,
    }  # fmt: skip
    assert (second.value, second.line, second.lines["d",]) == ({"d": 3}, 4, 4)


def test_aliases_share_nothing() -> None:
    (value,) = values("a: &x {b: [1]}\nc: *x\nd: {<<: *x}\n")
    value["c"]["b"].append(2)
    value["d"]["b"].append(3)
    assert value == {"a": {"b": [1]}, "c": {"b": [1, 2]}, "d": {"b": [1, 3]}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "f:3:1: key 'a' twice in one map, kubectl would take the last: remove one"),
        ('{"a": 1,\n"b": {"c": 1,\n "c": 2}}', "f:3:2: key 'c' twice in one map"),
        ('{"a": [\n NaN]}', "f:2:2: NaN is not JSON: quote it"),
        ('{"a": 1e999}', "f:1:7: the number is too large for a float64"),
        ("a: [.inf]", "f:1:5: NaN and infinity are not JSON: quote it"),
        ("a:\n- !foo b", "f:2:3: tag !foo is not supported: take it off"),
        ("a: ! 12", "f:1:4: tag ! is not supported"),
        ("a: !!binary eA==", "f:1:4: tag !!binary is not supported"),
        ("a: !!set {b}", "f:1:4: tag !!set is not supported"),
        ("a: !!int x", "f:1:4: 'x' is no !!int"),
        ("a: *x", "f:1:4: unknown anchor: write &x before it"),
        ("a: &x [*x]", "f:1:8: *x would contain itself"),
        ("a: {b: 1, <<: {b: 2}}", "f:1:20: key 'b' is written before '<<'"),
        ("--- a", "f:1:4: only a comment may follow '---'"),
        ("%YAML 1.2\n---\na: 1", "f:1:1: kubectl takes no directives"),
        ("a: \x07", "f:1:4: U+0007 is not allowed in YAML"),
        (b"a: 1\nb: \xff", "f:2:4: not UTF-8: save the file as UTF-8"),
        ("a: \ud800", "f:1:4: half of a surrogate pair"),
        ('{"a": "\\ud800"}', "f:1:1: half of a surrogate pair"),
        ("[" * 101, "f:1:101: nested deeper than 100 levels"),
        ('{"a":' * 101 + "1" + "}" * 101, "f:1:1: nested deeper than 100 levels"),
        ('{"a":' * 90000, "f:1:1: nested deeper than 100 levels"),
        ("{{ name }}: x", "f:1:9: a map or a list is no key"),
        ("~: x", "f:1:1: null is no key"),
        ("0xFFFFFFFFFFFFFFFF: x", "f:1:1: 18446744073709551615 is too large for a key"),
        ("a: 1\r---\nb: 2", "f:2:1: kubectl drops what follows '...'"),
        ("a: |\n \t\n  x", "f:2:2: found a tab"),
        ('a: "\\UFFFFFFFF"', "f:1:"),
        ("x: &x [[]]\ny: " + "[" * 98 + "*x", "f:2:102: nested deeper than 100 levels"),
        ('{"a": 1} b: 2', "f:1:10: JSON: only '{' or a line '---' may follow an object"),
        ('{"a": 1,\n"b": 2,, "c": 3', "f:2:8: "),
    ],
)
def test_a_refusal_names_the_place_and_the_way_out(text: str | bytes, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.parametrize("text", ["a: |\n \t\n  x", 'a: "\\UFFFFFFFF"', "a: [1", "a: ! 1", 'a: "\\/"'])
def test_the_slower_parser_refuses_what_the_other_does(text: str, loader: str) -> None:
    assert loader
    assert refusal(text).startswith("f:")


def test_numbers_of_any_length_stay_cheap() -> None:
    digits = "9" * 100_000
    assert values(f"a: {digits}\nb: 0x{digits}") == [{"a": digits, "b": f"0x{digits}"}]


def test_one_hundred_levels_are_read(loader: str) -> None:
    assert loader
    assert values("a: " + "[" * 99 + "]" * 99)
    assert values('{"a":' * 100 + "1" + "}" * 100)


def test_an_alias_bomb_is_refused_before_it_costs_anything(loader: str) -> None:
    assert loader
    bomb = "a0: &a0 [x, x, x]\n" + "".join(
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
    )
    assert "aliases expand to too much" in refusal(bomb)
    long = "a: &x " + "y" * 100_000 + "\nb: [" + ", ".join(["*x"] * 50) + "]"
    assert "aliases expand to too much" in refusal(long)


def test_lists_are_opened_as_kubectl_opens_them() -> None:
    text = (
        "kind: List\napiVersion: v1\nitems:\n- {kind: A, apiVersion: v1}\n"
        "- kind: BList\n  apiVersion: w/v1\n  items:\n  - metadata: {name: b}\n- kind: C\n---\nkind: D\n---\n"
        '{"kind": "List", "items": null}\n'
    )
    expanded = expand_lists(read_documents(text, "f"))
    assert [document.value for document in expanded] == [
        {"kind": "A", "apiVersion": "v1"},
        {"kind": "C"},
        {"metadata": {"name": "b"}, "kind": "B", "apiVersion": "w/v1"},
        {"kind": "D"},
    ]
    assert [document.line for document in expanded] == [4, 9, 8, 11]
    assert expanded[2].where(("metadata", "name")) == "f:8: /metadata/name"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: List\nitems: {}", "f:2:1: /items: must be a list"),
        ('{"items": [\n 1]}', "f:2:1: /items/0: must be an object"),
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


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_does_not_have_is_not_written(number: float) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        dump_yaml({"a": number})
