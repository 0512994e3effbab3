"""Without the flag the page costs nothing: its modules are not imported, however much else is."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import kscheduler.command.running, kscheduler.serving.server, kscheduler.explain.endpoint, kscheduler.serving.trust
import kscheduler.serving.routing.webhook, kscheduler.command.replica
print([name for name in sys.modules if name.startswith(("kscheduler.serving.live", "kscheduler.ui"))])
"""


def test_nothing_imports_the_page_but_what_is_asked_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
