"""What the tests of modules with texts share."""

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from types import ModuleType


def written(module: ModuleType) -> dict[str, str]:
    """Returns the texts without values, and the templates of the others, by name."""
    names = vars(module).get("__annotations__", {})
    own = {name: getattr(module, name) for name in names if not name.startswith("_")}
    texts = {name: getattr(each, "__self__", each) for name, each in own.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def functions(module: ModuleType) -> set[str]:
    """Returns the names of the functions that compose texts."""
    own = {name for name, each in vars(module).items() if getattr(each, "__module__", "") == module.__name__}
    return {name for name in own if name.islower() and not name.startswith("_")}


def miscounted(module: ModuleType) -> Iterator[str]:
    """Yields each call in the module's program that gives a template too few or too many values."""
    name = module.__name__.rpartition(".")[2]
    templates = {key: text for key, text in written(module).items() if key.islower()}
    for path in sorted(Path(str(module.__file__)).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            of, text = call.func.value, templates.get(call.func.attr)
            starred = any(isinstance(value, ast.Starred) for value in call.args)
            if text is not None and isinstance(of, ast.Name) and of.id == name and not starred:
                fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
                wanted = len(fields) if "" in fields else len({*fields})
                if len(call.args) != wanted or call.keywords:
                    yield f"{path}:{call.lineno}: {call.func.attr} takes {wanted} values"
