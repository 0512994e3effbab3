"""What flags say about TLS and about who may read the endpoint, as values. Imports nothing that is heavy."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """`--tls-min-version` and `--tls-cipher-suites`, as given."""

    min_version: str = ""  # "": TLS 1.2
    cipher_suites: tuple[str, ...] = ()  # none: the defaults


@dataclass(frozen=True, slots=True)
class RequestHeaderOptions:
    """The `--requestheader-` flags; without a file all of them come from the cluster."""

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_header_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    kubeconfig: str = ""  # "": the scheduler's own credentials ask for TokenReviews
    token_ttl_s: float = 10.0
    client_ca_file: str = ""  # "": from the cluster
    request_header: RequestHeaderOptions = field(default_factory=RequestHeaderOptions)
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    kubeconfig: str = ""  # "": the scheduler's own credentials ask for SubjectAccessReviews
    allowed_ttl_s: float = 10.0
    denied_ttl_s: float = 10.0
