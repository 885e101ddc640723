"""Reads the fenced blocks of the documents, and the commands in them.

The first word of a block's info string is its language. A ``console`` block has commands (``$ command``) with
their output, a ``sh`` block has only commands, and other blocks have none. The second word is the name of a
file with the contents of the block, which later commands can read. In an output, a line ``...`` matches any
number of lines, and ``...`` within a line matches any text.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

UNTESTED = {"docs/init-script.md": "shows the output of containers, which run only in tests/nodes"}
"""Documents whose blocks are not tested here, with the reason."""

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^(`{3,})([^`\n]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A command of a document, with its output; ``output`` is None if its block shows no outputs."""

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
        """Returns the commands of the block, in order."""
        if self.language == "console":
            parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
            assert not parts[0].strip(), f"{self.where}: a console block begins with a command"
            return [self._step(part, has_output=True) for part in parts[1:]]
        if self.language == "sh":
            lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
            return [self._step(line, has_output=False) for line in lines if line and not line.startswith("#")]
        return []

    def _step(self, text: str, *, has_output: bool) -> Step:
        # A command continues on the next line if its line ends with a backslash.
        command, _, output = re.sub(r"\\\n\s*", "", text).partition("\n")
        return Step(f"{self.where}: $ {command}", command, output if has_output else None)


@cache
def documents() -> list[str]:
    """Returns the paths of all documents, relative to the repository."""
    paths = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(REPOSITORY)) for path in paths)


def text_of(document: str) -> str:
    """Returns the text of a document."""
    return (REPOSITORY / document).read_text(encoding="utf-8")


def without_blocks(document: str) -> str:
    """Returns the text of a document except for its fenced blocks."""
    return _FENCED.sub("", text_of(document))


def anchors(document: str) -> set[str]:
    """Returns the anchors of a document's headings."""
    headings = re.findall(r"^#+ +(.+?) *$", without_blocks(document), re.MULTILINE)
    return {anchor_of(heading) for heading in headings}


def anchor_of(heading: str) -> str:
    """Returns the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def blocks_of(document: str) -> list[Block]:
    """Returns the fenced blocks of a document; empty for a document that is not tested here."""
    return [] if document in UNTESTED else read_blocks(document)


@cache
def read_blocks(document: str) -> list[Block]:
    """Returns the fenced blocks of any document."""
    text = text_of(document)
    blocks = []
    for match in _FENCE.finditer(text):
        where = f"{document}:{text[: match.start()].count(chr(10)) + 1}"
        language, _, file = match[2].strip().partition(" ")
        assert language, f"{where}: a fenced block without an info string"
        blocks.append(Block(where, language, file.strip(), match[3]))
    return blocks
