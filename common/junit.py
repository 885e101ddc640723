"""Writes test results as JUnit XML, which CI systems show.

XML cannot contain control characters, so they are written with Python's escapes.
"""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, indent, tostring

from common.texts import printable


def testcase(file: str, line: int | str, name: str) -> Element:
    """Returns a test case that passed. A child ``failure``, ``error`` or ``skipped`` changes the result."""
    file = printable(file)
    return Element("testcase", {"classname": file, "name": printable(name), "file": file, "line": str(line)})


def as_xml(name: str, cases: Sequence[Element]) -> str:
    """Returns the XML of a suite of test cases."""
    root, suite = Element("testsuites"), Element("testsuite", name=name, tests=str(len(cases)))
    root.append(suite)
    suite.extend(cases)
    for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{element}"))))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'
