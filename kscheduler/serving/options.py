"""Options for TLS, authentication and authorization of the endpoint. Imports nothing that is slow to import."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate for clients that request one of `names` by SNI: host names, or `*.DOMAIN`."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()  # empty: the names in the certificate

    @classmethod
    def parse(cls, text: str) -> NamedPair:
        """Parse `CERT,KEY` or `CERT,KEY:NAME,...`. Raises ValueError with kube-scheduler's message."""
        pair, colon, names = (part.strip() for part in text.partition(":"))
        if colon and not names:
            raise ValueError("empty names list is not allowed")
        files = [part.strip() for part in pair.split(",")]
        if len(files) != 2:
            raise ValueError("expected comma separated certificate and key file paths")
        return cls(files[0], files[1], tuple(name.strip() for name in names.split(",")) if names else ())


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The values of the flags `--tls-min-version`, `--tls-cipher-suites` and `--tls-sni-cert-key`."""

    min_version: str = ""  # "": TLS 1.2
    cipher_suites: tuple[str, ...] = ()  # empty: the defaults
    named_pairs: tuple[NamedPair, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestHeaderOptions:
    """The values of the `--requestheader-` flags.

    Without `client_ca_file` all of them are read from the cluster instead.
    """

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_header_prefixes: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationOptions:
    kubeconfig: str = ""  # for TokenReviews; "": the scheduler's own credentials are used
    token_ttl_s: float = 10.0
    client_ca_file: str = ""  # "": read from the cluster's ConfigMap
    request_header: RequestHeaderOptions = field(default_factory=RequestHeaderOptions)
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True


@dataclass(frozen=True, slots=True)
class AuthorizationOptions:
    kubeconfig: str = ""  # for SubjectAccessReviews; "": the scheduler's own credentials are used
    allowed_ttl_s: float = 10.0
    denied_ttl_s: float = 10.0
