"""Finds how a launcher's mpirun calls ssh, because the init script must reach the workers in the same way."""

import re
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from webhook.objects.tree import Json, maps_at, shown
from webhook.rows.placeholders import ABSENT

OPTIONS: Final = {
    **{f"plm_{of}_{what}": f"OMPI_MCA_plm_rsh_{what}" for of in ("rsh", "ssh") for what in ("args", "agent")},
    "launcher-exec": "HYDRA_LAUNCHER_EXEC",
    "bootstrap-exec": "I_MPI_HYDRA_BOOTSTRAP_EXEC",
    "bootstrap-exec-args": "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS",
}
"""Options of mpirun, and the variables with which the init script reads them."""

_VARIABLE: Final = r"(OMPI|PRTE)_MCA_plm_[rs]sh_(args|agent)|(HYDRA_LAUNCHER|I_MPI_HYDRA_BOOTSTRAP)_E[A-Z_]+"
_SAYS: Final = re.compile(rf"{'|'.join(OPTIONS)}|{_VARIABLE}|[./]ssh/config|ssh_config")
_WORDS: Final = ("ssh", "plm_", "HYDRA_", "-exec")
_LISTS: Final = frozenset({"env", "envFrom", "volumeMounts"})

LONGEST: Final = 1 << 14
"""Maximum length of a shell's text that is parsed."""


def ssh_of(container: Mapping[str, Json]) -> Mapping[str, Json]:
    """Returns a container's settings of ssh, as values of placeholders; empty if it has none.

    Its variables end with those of its command line; `sshUnclear` is a part that cannot be read.
    """
    words = [word for key in ("command", "args") for word in texts(container.get(key))]
    text = "\n".join(words)
    # Most containers have none of these, and searching for a pattern costs ten times as much.
    if _LISTS.isdisjoint(container) and not any(map(text.__contains__, _WORDS)):
        return {}
    env = {str(item.get("name")): item for item in maps_at(container, ("env",))}  # the last one is used
    source, mounts = (list(maps_at(container, (key,))) for key in ("envFrom", "volumeMounts"))
    configured = any("ssh" in str(mount.get("mountPath")) for mount in mounts)
    if not (source or configured or _SAYS.search("\n".join([text, *env]))):
        return {}
    tokens, unclear = [""], ""
    for word in words:
        shell = not word.startswith("-") and tokens[-1].lstrip("-") not in OPTIONS and re.search(r"\s", word)
        if not (shell and _SAYS.search(word)):
            tokens.append(word)
            continue
        try:
            tokens += shlex.split(word[:LONGEST].replace("\\\n", " "))
        except ValueError:
            unclear = word
        written = (target.split(maxsplit=1)[:1] for target in word.split(">")[1:])
        if len(word) > LONGEST or any("ssh" in path for paths in written for path in paths):
            unclear = word
    for token, after in pairwise([*tokens, ""]):
        name, equals, value = token.partition("=")
        name, value = OPTIONS.get(name.lstrip("-"), name * bool(equals)), value if equals else after
        if not re.fullmatch(_VARIABLE, name):
            continue
        if re.search(r"[$`]", re.sub(r"\$\((\w+)\)", lambda match: match[0] * (match[1] not in env), value)):
            unclear = f"{token} {value}"
        else:
            env.pop(name, None)
            env[name] = {"name": name, "value": value}
    lists = {"sshEnv": [*env.values()], "sshEnvFrom": source, "sshMounts": mounts}
    values: dict[str, Json] = {name: items or ABSENT for name, items in lists.items()}
    return values | ({"sshUnclear": shown(unclear)} if unclear else {})


def texts(words: Json) -> list[str]:
    """Returns the texts in a list; none if the value is not a list."""
    return [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
