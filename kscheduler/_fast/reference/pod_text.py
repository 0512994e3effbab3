"""The JSON texts of pods without the names that are each pod's own: keys by which equal pods are found undecoded."""

from __future__ import annotations

from kscheduler._fast.codes import MAX_TEXT

_NODE = b'"nodeName":"'  # quotes within a text are escaped, so this begins a field's value
_TOKEN = b"kube-api-access-"  # how the names of volumes with a service account's token begin
_PLACE = b"\x01"  # of such a name: no JSON holds this byte
_BETWEEN = b"\x00"  # nor this


def cut_names(spec: bytes, labels: bytes, annotations: bytes, owners: bytes) -> tuple[bytes, bytes, bytes]:
    """Return (key, name of the pod's node, name of its service account token volume), from a pod's JSON texts.

    The key holds the texts without the first node's name, which is at one position in all texts with this key, and with
    a mark where the volume's name was. A missing name is b"". Raises ValueError for more than MAX_TEXT bytes.
    """
    text, of_meta = bytes(spec), (bytes(labels), bytes(annotations), bytes(owners))
    length = len(text) + sum(map(len, of_meta))
    if length > MAX_TEXT:
        raise ValueError(f"expected texts of at most {MAX_TEXT} bytes, got {length}")
    token, token_at = b"", text.find(_TOKEN)
    if token_at >= 0:
        token_end = text.find(b'"', token_at)
        token = text[token_at : len(text) if token_end < 0 else token_end]
        text = text.replace(token, _PLACE)
    node_name, at = b"", text.find(_NODE)
    if at >= 0:
        start = at + len(_NODE)
        end = text.find(b'"', start)
        end = len(text) if end < 0 else end
        node_name = text[start:end]
        text = text[:start] + text[end:]
    return at.to_bytes(4, "little", signed=True) + _BETWEEN.join((*of_meta, text)), node_name, token
