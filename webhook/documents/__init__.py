"""YAML and JSON text with kubectl's meaning, or refused; and the line of every value.

A text means here what it means to kubectl, or it is refused with its line and the way out. What kubectl 1.36
does was read in its sources (``StreamVisitor`` of cli-runtime, ``YAMLOrJSONDecoder`` of apimachinery,
sigs.k8s.io/yaml 1.6, go.yaml.in/yaml/v2 2.4) and is held against the output of that very code by
``tests/documents/kubectl_yaml_cases.json``. ADR 0016 says what is refused although kubectl takes it.
"""

from webhook.documents.dump import dump_yaml
from webhook.documents.places import DocumentError, Json, Path
from webhook.documents.reader import Document, expand_lists, read_documents

__all__ = ["Document", "DocumentError", "Json", "Path", "dump_yaml", "expand_lists", "read_documents"]
