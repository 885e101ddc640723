"""Functions for the tests of ``messages`` modules, which contain texts, templates and functions."""

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from types import ModuleType


def constants(module: ModuleType) -> dict[str, str]:
    """Returns the texts and templates of a module by name. A template is a bound ``str.format``."""
    names = vars(module).get("__annotations__", {})
    values = {name: getattr(module, name) for name in names if not name.startswith("_")}
    texts = {name: getattr(value, "__self__", value) for name, value in values.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def functions(module: ModuleType) -> set[str]:
    """Returns the names of a module's public functions, which compose texts."""
    names = {
        key for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__
    }
    return {name for name in names if name.islower() and not name.startswith("_")}


def wrong_calls(module: ModuleType) -> Iterator[str]:
    """Yields a line for each call of a template, in the module's folder, with a wrong number of values."""
    name = module.__name__.rpartition(".")[2]
    templates = {key: text for key, text in constants(module).items() if key.islower()}
    own_path = Path(str(module.__file__))
    for path in sorted(own_path.parent.rglob("*.py")):
        if (path.parent / "messages.py").exists() and path.parent != own_path.parent:
            continue  # the name `messages` stands for the module of a nested package
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                continue
            owner, text = call.func.value, templates.get(call.func.attr)
            has_star = any(isinstance(value, ast.Starred) for value in call.args)
            if text is not None and isinstance(owner, ast.Name) and owner.id == name and not has_star:
                fields = [field for _, field, _, _ in Formatter().parse(text) if field is not None]
                count = len(fields) if "" in fields else len({*fields})
                if len(call.args) != count or call.keywords:
                    yield f"{path}:{call.lineno}: {call.func.attr} takes {count} values"
