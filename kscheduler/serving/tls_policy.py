"""Maps Go's names of TLS versions and cipher suites to OpenSSL's settings for the HTTPS endpoint.

Suites of TLS 1.3 are accepted without effect, since Go does not let them be chosen either. The order of the suites has
no meaning, as in Go, which has an order of preference of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.errors import ConfigError

TLS_1_0, TLS_1_1, TLS_1_2, TLS_1_3 = 0x0301, 0x0302, 0x0303, 0x0304  # the numbers in the TLS protocol

VERSIONS = {"VersionTLS10": TLS_1_0, "VersionTLS11": TLS_1_1, "VersionTLS12": TLS_1_2, "VersionTLS13": TLS_1_3}

# Go's name -> OpenSSL's, in Go's order of preference.
PREFERRED_SUITES = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    # Names from before they were standardised.
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
INSECURE_SUITES = {
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
TLS_1_3_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

# Go's default suites, which leave out most CBC suites and all with RSA key exchange.
_DEFAULT_SUITES = ":".join(dict.fromkeys(PREFERRED_SUITES.values()))


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """The TLS settings of the endpoint. `ciphers` is OpenSSL's cipher list for TLS 1.2 and older."""

    minimum: int = TLS_1_2
    ciphers: str = f"@SECLEVEL=2:{_DEFAULT_SUITES}"
    warnings: tuple[str, ...] = ()


def tls_policy(min_version: str, suites: Sequence[str] = ()) -> TlsPolicy:
    """Return the settings for --tls-min-version ("": TLS 1.2) and --tls-cipher-suites (empty: the defaults).

    Raises ConfigError for an unknown version or suite.
    """
    if min_version and min_version not in VERSIONS:
        raise ConfigError(f'unknown tls version "{min_version}"')
    minimum = VERSIONS[min_version] if min_version else TLS_1_2
    known = {**PREFERRED_SUITES, **INSECURE_SUITES}
    for name in suites:
        if name not in known and name not in TLS_1_3_SUITES:
            raise ConfigError(f"Cipher suite {name} not supported or doesn't exist")
    # OpenSSL's security level 2, its default here, refuses TLS below 1.2, whose digests are too weak.
    level = "@SECLEVEL=2" if minimum >= TLS_1_2 else "@SECLEVEL=0"
    if not suites:
        return TlsPolicy(minimum, f"{level}:{_DEFAULT_SUITES}")
    chosen = [cipher for name, cipher in known.items() if name in suites]
    if not chosen:  # TLS 1.3 suites only: none is left for earlier versions
        minimum, chosen = TLS_1_3, ["ECDHE-ECDSA-AES128-GCM-SHA256"]
    warnings = tuple(f"Use of insecure cipher '{name}' detected." for name in suites if name in INSECURE_SUITES)
    return TlsPolicy(minimum, ":".join([level, *dict.fromkeys(chosen)]), warnings)
