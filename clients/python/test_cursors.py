"""Cursors: batches, snapshots, and their end."""

import pytest
from bson import Int64, decode_all
from pymongo import CursorType
from pymongo.errors import ExecutionTimeout, OperationFailure


@pytest.fixture
def numbers(db):
    db.numbers.insert_many({"_id": i} for i in range(1000))
    return db.numbers


def test_a_cursor_comes_in_batches(numbers):
    with numbers.find().batch_size(100).sort("_id") as cursor:
        assert next(cursor)["_id"] == 0
        assert cursor.alive and cursor.cursor_id != 0
        assert [document["_id"] for document in cursor] == list(range(1, 1000))
        assert not cursor.alive
    assert len(list(numbers.find(limit=250, batch_size=100))) == 250
    assert len(list(numbers.find(limit=-250, batch_size=250))) == 250


def test_a_cursor_that_was_killed_is_gone(db, numbers):
    cursor = numbers.find(batch_size=10)
    next(cursor)
    killed = db.command("killCursors", "numbers", cursors=[cursor.cursor_id, Int64(1)])
    assert (killed["cursorsKilled"], killed["cursorsNotFound"]) == ([cursor.cursor_id], [1])
    with pytest.raises(OperationFailure) as error:
        list(cursor)
    assert error.value.code == 43


def test_raw_batches_and_exhaust_cursors(numbers):
    raw = [document for batch in numbers.find_raw_batches(batch_size=300) for document in decode_all(batch)]
    assert len(raw) == 1000
    exhaust = numbers.find(cursor_type=CursorType.EXHAUST, batch_size=50)
    assert len(list(exhaust)) == 1000


def test_a_cursor_does_not_see_later_writes(numbers):
    cursor = numbers.find(batch_size=10).sort("_id")
    next(cursor)
    numbers.delete_many({"_id": {"$gte": 500}})
    numbers.insert_one({"_id": 5000})
    assert len(list(cursor)) == 999


def test_a_search_that_takes_too_long_ends(numbers):
    slow = {"$expr": {"$gt": [{"$reduce": {"input": {"$range": [0, 10_000]}, "initialValue": 0, "in": 1}}, 2]}}
    with pytest.raises(ExecutionTimeout) as error:
        list(numbers.find(slow).max_time_ms(1))
    assert error.value.code == 50


def test_the_batches_of_a_search_share_its_time(client, numbers):
    cursor = numbers.find(batch_size=100).max_time_ms(60_000)
    next(cursor)
    client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="alwaysOn")
    try:
        with pytest.raises(ExecutionTimeout):
            list(cursor)
    finally:
        client.admin.command("configureFailPoint", "maxTimeAlwaysTimeOut", mode="off")


def test_a_collection_that_is_not_there_is_empty(db):
    assert list(db.nothing.find()) == []
    assert list(db.nothing.aggregate([{"$match": {}}])) == []
    assert db.nothing.count_documents({}) == 0
    assert list(db.nothing.list_indexes()) == []
