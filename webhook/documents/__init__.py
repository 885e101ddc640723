"""YAML and JSON text with kubectl's meaning, and line numbers that survive.

One promise: a text means here what it means to kubectl, or it is refused with the line and the way out. It
never means something else. What kubectl 1.36 does was read in its sources (``StreamVisitor`` of cli-runtime,
``YAMLOrJSONDecoder`` of apimachinery, sigs.k8s.io/yaml 1.6, go.yaml.in/yaml/v2 2.4) and is held against the
output of that very code by ``tests/data/kubectl_yaml_cases.json``.

Refused although kubectl takes it, each because a person is better served by knowing:

* a key written twice: kubectl keeps the last one and says nothing;
* a ``<<`` that overrides a key written before it: kubectl takes the merged one, other YAML the written one;
* tags other than ``!!str !!int !!float !!bool !!null !!map !!seq``: kubectl ignores or decodes them;
* text after ``...`` (kubectl drops it) or after a JSON object (it goes on as YAML); byte order marks inside;
* ``NaN``, ``Infinity`` and ``1e999`` in JSON: kubectl, failing to read JSON, makes them strings as in YAML;
* surrogate escapes without their other half: kubectl replaces them;
* more than 100 levels, and aliases that expand to more than a megabyte or so.
"""

from webhook.documents.dump import dump_yaml
from webhook.documents.errors import DocumentError
from webhook.documents.lines import Json, Path
from webhook.documents.reader import Document, expand_lists, read_documents

__all__ = ["Document", "DocumentError", "Json", "Path", "dump_yaml", "expand_lists", "read_documents"]
