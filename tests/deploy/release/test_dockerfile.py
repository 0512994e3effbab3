"""The Dockerfile's settings are read as an engine would apply them."""

from __future__ import annotations

import pytest

from deploy.release.dockerfile import read
from deploy.release.source import BuildError

TEXT = r"""
# A comment
ARG BASE=3.13
FROM python:${BASE} AS build
ENV LEFT=behind
FROM python:${BASE}
COPY --from=build /a /a
ARG VERSION=0
ARG BASE
LABEL title="two words" \
      # between the lines
      version=$VERSION
ENV PATH=/a/bin:$PATH \
    ON=1
USER 7:8
EXPOSE 80 53/udp
ENTRYPOINT ["/a/bin/program"]
CMD ["run", "--fast"]
"""


def test_the_last_stage_is_what_counts() -> None:
    settings = read(TEXT, {"PATH": "/bin"}, {"VERSION": "1.2"})
    assert settings.env == {"PATH": "/a/bin:/bin", "ON": "1"}
    assert settings.labels == {"title": "two words", "version": "1.2"}
    assert settings.user == "7:8"
    assert settings.ports == ["80/tcp", "53/udp"]
    assert settings.entrypoint == ["/a/bin/program"]
    assert settings.cmd == ["run", "--fast"]
    assert settings.arguments == {"BASE": "3.13", "VERSION": "1.2"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("HEALTHCHECK NONE", "HEALTHCHECK is not known"),
        ("ENV A=$NOWHERE", r"\$NOWHERE has no value here"),
    ],
)
def test_what_would_get_lost_is_an_error(line: str, message: str) -> None:
    with pytest.raises(BuildError, match=message):
        read(f"FROM scratch\n{line}\n", {}, {})
