"""What the tests share."""

import pytest

import spinney
from spinney import documents


@pytest.fixture
def db(tmp_path):
    """An empty database."""
    with spinney.open(tmp_path / "db", memory_bytes=16 << 20) as opened:
        yield opened


@pytest.fixture
def table(db):
    """A table with the keys a to e."""
    table = db.create_table("letters")
    for letter in "abcde":
        table[letter.encode()] = letter.upper().encode()
    return table


@pytest.fixture
def client(tmp_path):
    """An empty document database."""
    with documents.open(tmp_path / "documents", memory_bytes=32 << 20) as opened:
        yield opened
