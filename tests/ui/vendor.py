"""Fetches what is vendored in the page again, as npm publishes it, and compares it: `make vendor`."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "kscheduler" / "ui" / "page" / "vendor"


def manifest() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FOLDER / "vendored.json").read_bytes())
    return loaded


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> int:
    expected = manifest()
    with tempfile.TemporaryDirectory() as folder:
        pack = ["npm", "pack", "--silent", f"{expected['package']}@{expected['version']}"]
        name = subprocess.run(pack, cwd=folder, check=True, capture_output=True, text=True).stdout.split()[-1]
        archive = Path(folder, name)
        if digest(archive.read_bytes()) != expected["sha256"]:
            print(f"{name}: expected SHA-256 {expected['sha256']}, got {digest(archive.read_bytes())}", file=sys.stderr)
            return 1
        with tarfile.open(archive) as files:
            for target, entry in expected["files"].items():
                member = files.extractfile(f"package/{entry['from']}")
                assert member is not None
                content = member.read()
                if digest(content) != entry["sha256"]:
                    print(f"{entry['from']}: expected {entry['sha256']}, got {digest(content)}", file=sys.stderr)
                    return 1
                (FOLDER / target).write_bytes(content)
                print(f"{target}: as in {expected['package']} {expected['version']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
