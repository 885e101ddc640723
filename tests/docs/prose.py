"""The prose linter: ``python -m tests.docs.prose`` looks for the words and patterns of ``style.yaml``.

Prose is the text of documents, and in code the comments, docstrings and messages. The linter uses proselint,
and also runs some of proselint's own checks.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import yaml
from proselint.checks import __register__ as packaged
from proselint.registry import CheckRegistry
from proselint.registry.checks import Check, CheckFlags, Padding
from proselint.registry.checks.engine import Fancy, RegexOptions
from proselint.registry.checks.types import PreferredForms
from proselint.tools import LintFile

from tests.docs.blocks import REPOSITORY

PATTERNS = Path(__file__).with_name("style.yaml")

PACKAGED = ("needless_variants", "nonwords", "malapropisms", "redundancy")
"""Checks of proselint that fit technical prose."""

NOT_PROSE = re.compile(
    r"^(tests/(data|documents/data)/|locks/|LICENSE|tests/docs/(style\.yaml|test_prose\.py))"
    r"|\.(png|svg|lock|json|gz|patch|diff|sum|mod)$"
)
"""Files that hold data."""

_BLOCK = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")


def register() -> dict[str, bool]:
    """Registers the checks with proselint, and returns the checks that are on."""
    words: dict[str, str] = yaml.safe_load(PATTERNS.read_text(encoding="utf-8"))
    own = (
        ("words", Padding.WORDS_IN_TEXT, True, lambda pattern: not pattern.startswith("(")),
        ("patterns", Padding.RAW, False, lambda pattern: pattern.startswith("(")),
    )
    CheckRegistry().register_many(packaged)
    for name, padding, ignore_case, selects in own:
        items = {pattern: instead for pattern, instead in words.items() if selects(pattern)}
        options = RegexOptions(case_insensitive=ignore_case, multi_line=True)
        CheckRegistry().register(
            Check(
                PreferredForms(items, padding),
                Fancy(options),
                f"own.{name}",
                "'{1}': {0}",
                CheckFlags(allow_quotes=True),
            )
        )
    return dict.fromkeys(("own", *PACKAGED), True)


def prose(name: str, text: str) -> str:
    """Returns ``text`` with blanks in place of everything but prose, so that lines and columns stay."""
    if name.endswith(".py"):
        text = _of_python(text)
    if name.endswith(".md"):
        text = _BLOCK.sub(_blank, text)
    return _CODE.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _of_python(text: str) -> str:
    """Returns Python code with blanks in place of everything but comments and strings."""
    source = text.splitlines()
    lines = [" " * len(line) for line in source]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (tokenize.COMMENT, tokenize.STRING):
            continue
        (first, begin), (last, end) = token.start, token.end
        for number in range(first - 1, last):
            left = begin if number == first - 1 else 0
            right = end if number == last - 1 else len(source[number])
            lines[number] = lines[number][:left] + source[number][left:right] + lines[number][right:]
    return "\n".join(lines)


def complaints(name: str, text: str, checks: dict[str, bool]) -> Iterator[str]:
    """Yields a line for each fault in the prose of ``text``."""
    for result in LintFile(name, prose(name, text)).lint({"max_errors": 1000, "checks": checks}):
        line, column = result.pos
        yield f"{name}:{line}:{column}: {result.check_result.message}"


def files() -> list[str]:
    """Returns the files of the repository that contain prose."""
    names = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [name for name in names if not NOT_PROSE.search(name) and (REPOSITORY / name).is_file()]


def main(arguments: list[str]) -> int:
    """Lints the repository, or the named files and folders; returns the exit code."""
    checks = register()
    lines = [
        line
        for name in files()
        if not arguments or name.startswith(tuple(arguments))
        if (text := (REPOSITORY / name).read_text(encoding="utf-8"))
        for line in complaints(name, text, checks)
    ]
    sys.stderr.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
