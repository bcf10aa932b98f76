# SPDX-License-Identifier: Apache-2.0
"""Stubs say of each extension what it has: names, methods, fields."""
import ast
import importlib
import pathlib

import pytest

import mckv

FOLDER = pathlib.Path(mckv.__file__).resolve().parent


def has(node, name):
    return any(getattr(item, "name", None) == name or getattr(getattr(item, "target", None), "id", None) == name for item in node.body)


@pytest.mark.parametrize("name", ("_events", "_rows"))
def test_a_stub_has_what_the_extension_has(name):
    module = importlib.import_module("mckv." + name)
    stub = ast.parse((FOLDER / (name + ".pyi")).read_text())
    for public in (attribute for attribute in dir(module) if not attribute.startswith("_")):
        assert has(stub, public), public
        kind = getattr(module, public)
        if not isinstance(kind, type):
            continue
        described = next(node for node in stub.body if getattr(node, "name", None) == public)
        if issubclass(kind, tuple):
            fields = [item.target.id for item in described.body]
            shown = [field for field in dir(kind) if not field.startswith("_") and not field.startswith("n_")
                     and field not in ("count", "index")]
            assert sorted(fields) == sorted(shown) and len(fields) == kind.n_fields, public
            continue
        for method in (method for method in dir(kind) if not method.startswith("_")):
            assert has(described, method), f"{public}.{method}"


@pytest.mark.parametrize("name", ("_events", "_rows"))
def test_a_stub_has_nothing_that_is_not_there(name):
    module = importlib.import_module("mckv." + name)
    for node in ast.parse((FOLDER / (name + ".pyi")).read_text()).body:
        if isinstance(node, ast.ClassDef):
            for item in node.body:
                method = getattr(item, "name", None)
                assert method is None or hasattr(getattr(module, node.name), method), method
