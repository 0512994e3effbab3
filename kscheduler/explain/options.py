"""Options for explanations: how many decisions are recorded, the flags of `kscheduler explain`, and where it asks."""

from __future__ import annotations

from dataclasses import dataclass

PATH = "/debug/kscheduler/explain"  # of the secure port
DEFAULT_RECORDS = 10_000
DEFAULT_BYTES = 32 * 1024 * 1024
DEFAULT_TOP_NODES = 5
MAX_TOP_NODES = 100
DEFAULT_SERVER = "https://127.0.0.1:10259"
DEFAULT_LEASE = "kscheduler/kscheduler"  # as in deploy/base


@dataclass(frozen=True, slots=True)
class DecisionLogOptions:
    """Limits on the decisions that a scheduler records."""

    max_records: int = DEFAULT_RECORDS  # decisions kept; 0: none
    max_bytes: int = DEFAULT_BYTES
    top_nodes: int = DEFAULT_TOP_NODES  # best nodes whose scores are kept; 0: no scores
    annotate: bool = False  # also write decisions to their pods as annotations


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The options of `kscheduler explain POD`."""

    pod: str
    namespace: str = "default"
    server: str = DEFAULT_SERVER
    kubeconfig: str = ""  # kubeconfig whose token is sent; "": none
    lease: str = DEFAULT_LEASE  # namespace/name of the Lease, to name the leader if no server answers
    token_file: str = ""  # file with the token to send; "": none
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    output: str = "text"  # or "json"
    all_nodes: bool = False
    top_nodes: int = DEFAULT_TOP_NODES
