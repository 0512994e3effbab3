"""Finds the Cython modules under kscheduler/ by itself; the rest of the packaging is in pyproject.toml.

KSCHEDULER_DEBUG=1 builds with every check on, line tracing off, and annotated HTML beside each module.
"""

from __future__ import annotations

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("KSCHEDULER_DEBUG") == "1"

# Negative indices are never meant: with boundscheck on, wraparound off makes them an error too.
DIRECTIVES = {
    "language_level": 3,
    "wraparound": False,
    "boundscheck": DEBUG,
    "initializedcheck": DEBUG,
    "cdivision": not DEBUG,
    "overflowcheck": DEBUG,
    "nonecheck": DEBUG,
    "embedsignature": True,
    # Kernel tables are not to be pickled, and the stubs describe all there is.
    "auto_pickle": False,
    "autotestdict": False,
    "freethreading_compatible": True,
}


JOBS = len(os.sched_getaffinity(0))  # modules that are translated and compiled at a time

SHARED = "kscheduler._fast.memoryviews"  # Cython's own code for memoryviews, compiled once

C_FILES = Path("build/cython-debug" if DEBUG else "build/cython")
MODE = Path("build/mode")  # what the last build was for; newer than the extensions after a change


def note_mode() -> None:
    """Let a debug build follow a release build, and the other way round: timestamps alone would keep the old one."""
    MODE.parent.mkdir(exist_ok=True)
    if not MODE.exists() or MODE.read_text() != C_FILES.name:
        MODE.write_text(C_FILES.name)


def extensions() -> list[Extension]:
    """One extension for each .pyx, named after its path; the longest first, so that none is left for the end alone.

    What Cython would write into each of them for memoryviews is an extension of its own, which they share.
    """
    # Nobody here looks at floating-point traps; loops that might raise them would not become vector instructions.
    # Without -g0 Python's own flags apply: debugging information takes a quarter of the time to compile.
    flags = ["-O0", "-g"] if DEBUG else ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math"]
    if DEBUG:
        # To check a difference of pointers for overflow, Cython passes both as numbers, which GCC 14 refuses otherwise.
        flags.append("-Wno-int-conversion")
    # A fused multiply-add rounds once where kube-scheduler's arithmetic rounds twice; arm64 would fuse unasked.
    flags.append("-ffp-contract=off")
    paths = sorted(Path("kscheduler").rglob("*.pyx"), key=lambda path: (-path.stat().st_size, path))
    modules = {".".join(path.with_suffix("").parts): [str(path)] for path in paths} | {SHARED: []}
    # What a module depends on is in the source distribution; C files, which its sources become, are not.
    return [
        Extension(name, sources, extra_compile_args=flags, depends=[str(MODE), *sources])
        for name, sources in modules.items()
    ]


if __name__ == "__main__":  # a process that translates one module may read this file again
    note_mode()
    setup(
        ext_modules=cythonize(
            extensions(),
            compiler_directives=DIRECTIVES,
            annotate=DEBUG,
            build_dir=str(C_FILES),
            nthreads=JOBS,
            shared_utility_qualified_name=SHARED,
        ),
        options={"build_ext": {"parallel": JOBS}},
    )
