"""Makes the page with one report as a single HTML file that loads nothing: styles, scripts and data are in the file.

The modules become one script: their imports are removed, so a name may be defined in one module only. The file's
Content-Security-Policy allows no scripts and styles but those in it, by their hashes, so that even a name that broke
out of the data could not run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache

from kscheduler.ui.assets import CHARTS, INDEX, MODULES, STYLES, asset

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[\w-]+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const |let |class |function |async )", re.MULTILINE)
_LINKS = re.compile(r"^<(?:link rel=\"stylesheet\"|script )[^\n]*\n", re.MULTILINE)
_END = "</body>"


def to_html(report: bytes) -> bytes:
    """Return the page with a report, given as JSON, in it. `report` must be a report: it is not looked at."""
    # "<" could end the script element or start a comment in it; in JSON it occurs in strings only, as an escape too.
    data = report.replace(b"<", b"\\u003c")
    head, tail = _frame()
    return b"".join((head, b'<script type="application/json" id="data">', data, b"</script>\n", tail))


@cache
def _frame() -> tuple[bytes, bytes]:
    """Return what comes before and after the data."""
    style = "".join(asset(name) for name in STYLES)
    charts, script = asset(CHARTS), "".join(_plain(asset(name)) for name in MODULES)
    policy = (
        f"default-src 'none'; script-src {csp_digest(charts)} {csp_digest(script)}; style-src {csp_digest(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    page = _LINKS.sub("", asset(INDEX)).replace("<title>", f"{meta}<title>", 1)
    page = page.replace("</head>", f"<style>{style}</style>\n</head>", 1)
    head, _, end = page.rpartition(_END)
    # The data comes before the scripts, which read it as soon as they run.
    tail = f'<script>{charts}</script>\n<script type="module">{script}</script>\n{_END}{end}'
    return head.encode(), tail.encode()


def _plain(module: str) -> str:
    return _EXPORT.sub("", _IMPORT.sub("", module))


def csp_digest(text: str) -> str:
    """Return the source by which a Content-Security-Policy allows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
