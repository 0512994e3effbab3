"""What the command line decides about explanations: how much is remembered, and what is asked."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_RECORDS = 10_000
DEFAULT_BYTES = 32 * 1024 * 1024
DEFAULT_TOP_NODES = 5
MAX_TOP_NODES = 100
DEFAULT_SERVER = "https://127.0.0.1:10259"
DEFAULT_LEASE = "kscheduler/kscheduler"  # as in deploy/base


@dataclass(frozen=True, slots=True)
class DecisionLogOptions:
    """What a scheduler remembers of its decisions."""

    max_records: int = DEFAULT_RECORDS  # decisions; 0: none
    max_bytes: int = DEFAULT_BYTES
    top_nodes: int = DEFAULT_TOP_NODES  # best nodes whose scores are kept; 0: no scores
    annotate: bool = False  # write them to their pods


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """`kscheduler explain POD`."""

    pod: str
    namespace: str = "default"
    server: str = DEFAULT_SERVER
    kubeconfig: str = ""  # whose token is shown; "": none is
    lease: str = DEFAULT_LEASE  # namespace/name, to tell who leads if nobody answers
    token_file: str = ""  # the same from a file
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    output: str = "text"  # or "json"
    all_nodes: bool = False
    top_nodes: int = DEFAULT_TOP_NODES
