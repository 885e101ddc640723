"""Results as JUnit's XML, for what shows the results of pipelines.

XML has no way to write control characters, so they stand there as Python writes them.
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, indent, tostring

from common.texts import printable


def testcase(file: str, line: int | str, name: str) -> Element:
    """A test case that passed; with a child failure, error or skipped it did not."""
    file = printable(file)
    said = {"classname": file, "name": printable(name), "file": file, "line": str(line)}
    return Element("testcase", said)


def as_xml(name: str, cases: Sequence[Element]) -> str:
    """A suite of test cases."""
    root, suite = Element("testsuites"), Element("testsuite", name=name, tests=str(len(cases)))
    root.append(suite)
    suite.extend(cases)
    for count, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(len(suite.findall(f"testcase/{element}"))))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'
