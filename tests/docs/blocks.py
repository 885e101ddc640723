"""Fenced blocks of the documents, and the commands in them.

A block has an info string: ``console`` is a session (``$ command``, then what it prints), ``sh`` is
commands alone, anything else is not a command. A second word names a file that the block is the content of,
so that later commands can use it. In an output a line ``...`` stands for any lines, and ``...`` in a line
for any text.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

ELSEWHERE = {"docs/init-script.md": "shows what containers print: tests/nodes has real ones"}
"""Documents whose blocks are not looked at here, and why."""

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(`{3,})([^`\n]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command as a document shows it; ``output`` is None where the document shows commands alone."""

    where: str
    command: str
    output: str | None


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    where: str
    language: str
    file: str
    text: str

    def steps(self) -> list[Step]:
        """Its commands, in order."""
        if self.language == "console":
            parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
            assert not parts[0].strip(), f"{self.where}: a console block begins with a command"
            return [self._step(part, shown=True) for part in parts[1:]]
        if self.language == "sh":
            lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
            return [self._step(line, shown=False) for line in lines if line and not line.startswith("#")]
        return []

    def _step(self, text: str, *, shown: bool) -> Step:
        # A line that ends with a backslash goes on in the next one.
        command, _, output = re.sub(r"\\\n\s*", "", text).partition("\n")
        return Step(f"{self.where}: $ {command}", command, output if shown else None)


@cache
def documents() -> list[str]:
    """Returns every document of the project, by its path in the repository."""
    paths = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(REPOSITORY)) for path in paths)


def text_of(document: str) -> str:
    """Returns the text of a document."""
    return (REPOSITORY / document).read_text(encoding="utf-8")


def without_blocks(document: str) -> str:
    """Returns the text of a document except for its fenced blocks."""
    return _FENCED.sub("", text_of(document))


def anchors(document: str) -> set[str]:
    """Returns what headings can be linked to, as GitHub makes it of their text."""
    headings = re.findall(r"^#+ +(.+?) *$", without_blocks(document), re.MULTILINE)
    return {anchor_of(heading) for heading in headings}


def anchor_of(heading: str) -> str:
    """Returns the anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def blocks_of(document: str) -> list[Block]:
    """Returns the fenced blocks of a document, none for one that is not looked at."""
    return [] if document in ELSEWHERE else read_blocks(document)


@cache
def read_blocks(document: str) -> list[Block]:
    """Returns the fenced blocks of a document, whichever it is."""
    text = text_of(document)
    blocks = []
    for match in _FENCE.finditer(text):
        where = f"{document}:{text[: match.start()].count(chr(10)) + 1}"
        language, _, file = match[2].strip().partition(" ")
        assert language, f"{where}: a fenced block without an info string"
        blocks.append(Block(where, language, file.strip(), match[3]))
    return blocks
