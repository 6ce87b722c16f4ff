"""The examples of the package are true."""

import doctest
import pathlib

import spinney
from spinney import documents


def test_examples():
    for module in (spinney, documents):
        told = doctest.testmod(module)
        assert told.attempted and not told.failed


def test_the_tutorial():
    page = pathlib.Path(__file__).parents[2] / "docs/guide/python.md"
    told = doctest.testfile(str(page), module_relative=False)
    assert told.attempted > 20 and not told.failed
