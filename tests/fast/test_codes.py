from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path
from types import GetSetDescriptorType, ModuleType

import pytest

import kscheduler._fast as package
from kscheduler._fast import codes
from kscheduler.testing.kernels import NAMES, reference

_PXD = Path(codes.__file__).with_name("codes.pxd")


def _value_in_pxd(name: str) -> int:
    text = _PXD.read_text(encoding="utf-8")
    found = re.search(rf"^    {name} = (\d+)$", text, re.M)
    if found:
        return int(found[1])
    wide = re.search(rf"#define KS_{name} \(\(int64_t\)1 << (\d+)\)", text)
    assert wide, f"{name} is not in codes.pxd"
    return 1 << int(wide[1])


@pytest.mark.parametrize("name", [name for name in vars(codes) if name.isupper()])
def test_python_and_the_compiler_mean_the_same_number(name: str) -> None:
    assert _value_in_pxd(name) == getattr(codes, name)


def test_both_forms_have_every_name_the_package_promises(fast: ModuleType) -> None:
    assert [name for name in package.__all__ if name != "COMPILED" and not hasattr(fast, name)] == []


def test_the_switch_knows_each_reference() -> None:
    assert list(package._TWINS) == NAMES


def test_docstrings_of_both_forms_are_equal(fast: ModuleType) -> None:
    for name in package.__all__:
        theirs = getattr(reference, name, None)
        if callable(theirs):
            assert docstring(getattr(fast, name)) == docstring(theirs), name
        for member, of_reference in vars(theirs).items() if isinstance(theirs, type) else ():
            ours = vars(getattr(fast, name)).get(member)
            is_field = isinstance(ours, GetSetDescriptorType) and not ours.__doc__  # a C field, which has no docstring
            if not member.startswith("_") and not is_field:
                assert docstring(ours) == docstring(of_reference), f"{name}.{member}"


def docstring(of: object) -> str:
    """Without the signature that Cython puts before it."""
    found = cleandoc(of.__doc__ or "")
    head, _, rest = found.partition("\n")
    return rest.strip() if re.fullmatch(r"[\w.]+\(.*\)", head) else found
