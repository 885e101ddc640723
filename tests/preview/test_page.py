"""Tests of the HTML page without a browser: the order of its parts, escaping, errors and static files."""

import re
import tempfile
from collections.abc import Iterator
from cProfile import Profile
from html import unescape
from io import BytesIO
from pathlib import Path

import pytest
from werkzeug.test import Client, TestResponse

from testbed import chart
from testbed.mpijob import mpijob
from webhook import limits
from webhook.app import create_app
from webhook.documents import dump_yaml, read_documents
from webhook.preview import messages
from webhook.preview.lines import diff_lines
from webhook.preview.page import EXAMPLE, error_page
from webhook.preview.run import preview
from webhook.preview.views import preview_blueprint
from webhook.rules.load import load_installed
from webhook.rules.source import TableSource

STATIC = chart.REPOSITORY / "webhook" / "preview" / "static"
ORDER = (
    'class="sentence',
    "<svg",
    "The drawing as a table",
    'class="diff"',
    'class="warning',
    'class="note',
    "Rules that do not apply",
    "The object as YAML",
    "JSON patch",
)


@pytest.fixture(scope="module")
def client() -> Client:
    return Client(create_app(preview_blueprint(TableSource(placement=True)), render_error=error_page))


def post_form(client: Client, **form: str) -> TestResponse:
    return client.post("/", data=form)


def test_the_page_begins_with_the_sentence_and_ends_with_yaml_and_patch(client: Client) -> None:
    job = mpijob(4) | {"apiVersion": "kubeflow.org/v1"}  # a kind with a note
    job["spec"]["runPolicy"] = {"activeDeadlineSeconds": 60}
    text = post_form(client, object=dump_yaml(job)).get_data(as_text=True)
    positions = [text.index(part) for part in ORDER]
    assert positions == sorted(positions)
    assert "4 workers on one whole UltraServer" in text


def test_the_example_of_the_page_is_a_file_in_examples() -> None:
    assert (chart.REPOSITORY / "examples" / "four-node.yaml").read_text(encoding="utf-8") == EXAMPLE


def test_each_added_line_names_the_rule_that_sets_it(client: Client) -> None:
    """A line with only a key has the rule of the next change below it."""
    text = client.get("/?example").get_data(as_text=True)
    rows = re.findall(r'class="added"><td(?: class="again")?>(.*?)</td><td><code>\+ +(.*?)</code>', text)
    assert all(rule for rule, _ in rows)
    rules = [rule for rule, line in rows if line.startswith(("ultraserver-webhook.io/", "affinity:"))]
    record = "the webhook itself"
    assert rules[:4] == ["whole-job-launcher", "hostfile-for-launcher", record, "together-required"]
    assert rules[4:] == ["job-label", "job-label", record]
    assert ("ultraserver-nodes", "nodeSelector:") in rows
    assert ("together-required", "podAffinity:") in rows
    assert [rule for rule, line in rows if line == "schedulingGates:"] == [
        "whole-job-launcher",
        "whole-job-gate",
    ]


def test_an_update_and_the_pods_of_a_job_are_shown(client: Client) -> None:
    stored = dump_yaml(mpijob(4))
    answer = post_form(client, object=stored, old=stored, pods="true").get_data(as_text=True)
    assert "Pod launcher" in answer
    assert 'class="sentence' in answer


def test_an_uploaded_file_has_precedence_over_the_text_field(client: Client) -> None:
    file = (BytesIO(dump_yaml(mpijob(8)).encode()), "job.yaml")
    answer = client.post("/", data={"object": "kind: x", "object-file": file}).get_data(as_text=True)
    assert "placed: 8 workers in blocks of 4" in answer


def test_a_large_upload_needs_no_temporary_file(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Protects containers with a read-only root: a large upload must not go to a temporary file."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    head = 'Content-Disposition: form-data; name="object-file"; filename="job.yaml"'
    body = f"--x\r\n{head}\r\n\r\n{dump_yaml(mpijob(8))}{'#' * 600_000}\r\n--x--\r\n"
    answer = client.post("/", data=body.encode(), content_type="multipart/form-data; boundary=x")
    assert "placed: 8 workers" in answer.get_data(as_text=True)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"object": "kind: ["}, "object:2:"),
        ({"object": "# nothing"}, messages.NO_OBJECTS),
        ({"object": EXAMPLE, "namespace": "No_Name"}, "parameter namespace is &#39;No_Name&#39;"),
    ],
)
def test_an_error_is_reported_above_the_form(client: Client, form: dict[str, str], reason: str) -> None:
    answer = post_form(client, **form)
    text = answer.get_data(as_text=True)
    assert 'role="alert">' in text
    assert reason in text.partition("<form")[0]
    assert answer.status_code == 400


def test_a_text_that_is_too_long_for_the_api_is_too_long_for_the_page(client: Client) -> None:
    """Protects the server: the body of a form may be twice as long, because of its encoding."""
    answer = post_form(client, object="# " + "é" * (limits.PREVIEW // 2))
    assert answer.status_code == 413
    assert messages.TOO_LONG in answer.get_data(as_text=True)


@pytest.mark.parametrize(("path", "kind"), [("/nothing", "text/html"), ("/v1/nothing", "application/json")])
def test_a_browser_gets_errors_as_a_page_except_below_v1(path: str, kind: str, client: Client) -> None:
    answer = client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (answer.status_code, answer.mimetype) == (404, kind)


def test_a_browser_that_is_refused_gets_a_page_and_a_program_gets_json(client: Client) -> None:
    headers = {"Host": "evil.example"}
    page = client.get("/", headers=headers | {"Accept": "text/html,*/*;q=0.8"})
    assert (page.status_code, page.mimetype) == (403, "text/html")
    assert "this host name is not allowed" in page.get_data(as_text=True)
    assert client.get("/", headers=headers | {"Accept": "*/*"}).get_json()["code"] == "forbidden"


def test_the_page_loads_nothing_from_other_sites_and_its_script_is_short() -> None:
    """Protects the Content-Security-Policy: no URL of another site, and no inline script or style."""
    sources = [path.read_text(encoding="utf-8") for path in _sources()]
    assert not [text for text in sources if re.search(r"https?://|style=|<script>|onclick", text)]
    assert len((STATIC / "page.js").read_text(encoding="utf-8").splitlines()) <= 200


def _sources() -> Iterator[Path]:
    folder = STATIC.parent
    yield from (folder / "templates").glob("*.html")
    yield from (path for path in STATIC.iterdir() if path.suffix in {".js", ".css"})


def test_a_text_of_many_lines_is_in_a_hidden_field(client: Client) -> None:
    """Protects users: a browser takes ten seconds for a text field with 300,000 lines."""
    long_text = EXAMPLE + "#\n" * 30_000
    answer = client.post("/", data={"object-file": (BytesIO(long_text.encode()), "job.yaml")})
    form = answer.get_data(as_text=True).partition("<form")[2]
    assert 'id="object"' not in form
    (value,) = re.findall(r'<input type="hidden" name="object" value="([^"]*)">', form)
    assert unescape(value) == long_text


def test_a_page_of_many_documents_has_some_changes_and_a_button_for_more(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects users who preview a whole folder from a page with 65,000 elements."""
    monkeypatch.setattr("webhook.preview.page.MAX_WITH_CHANGES", 2)
    text = "---\n".join(dump_yaml(mpijob(4, name=f"job-{number}")) for number in range(3))
    page = post_form(client, object=text).get_data(as_text=True)
    assert page.count('class="sentence') == 3
    assert page.count('class="diff"') == 2
    assert 'value="2">Changes of objects 3 to 3<' in page
    assert post_form(client, object=text, first="2").get_data(as_text=True).count('class="diff"') == 1
    for value in ("x", "-5"):
        assert post_form(client, object=text, first=value).get_data(as_text=True).count('class="diff"') == 2


def test_a_diff_of_equal_lines_costs_as_much_as_a_diff_of_different_lines() -> None:
    """Protects the server: some diff algorithms compare each line with all equal lines."""
    call_counts = []
    for words in ([f"word {number}" for number in range(500)], ["a"] * 500):
        job = mpijob(4)
        job["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["args"] = words
        (item,) = preview(load_installed(), read_documents(dump_yaml(job), "job"), None, 0)
        profile = Profile()
        profile.runcall(lambda item=item: list(diff_lines(item)))
        call_counts.append(sum(entry.callcount for entry in profile.getstats()))
    assert call_counts[1] < 1.5 * call_counts[0]


def test_a_page_without_the_diff_of_too_many_lines_has_all_other_parts(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protects the server: the time of a diff can grow with the square of the number of lines."""
    monkeypatch.setattr("webhook.preview.lines.MAX_LINES", 50)
    answer = post_form(client, object=EXAMPLE).get_data(as_text=True)
    assert "placed: " in answer
    assert "lines are not compared, as 50 is the maximum" in answer


def test_a_name_with_control_characters_is_escaped(client: Client) -> None:
    """Protects readers of the page from characters that reverse the direction of the text."""
    answer = post_form(client, object=dump_yaml(mpijob(4, name="a\u202edcb\u2066")))
    assert "\u202e" not in answer.get_data(as_text=True).partition("<form")[0]
