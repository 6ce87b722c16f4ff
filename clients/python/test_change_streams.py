"""Change streams: what happened, in its order, and where to go on."""

import threading

import pytest
from pymongo.errors import PyMongoError


def events(stream, count):
    return [next(stream) for _ in range(count)]


def test_a_stream_shows_each_change(db, orders):
    with orders.watch(full_document="updateLookup", max_await_time_ms=50) as stream:
        orders.insert_one({"_id": 100, "n": 1})
        orders.update_one({"_id": 100}, {"$set": {"n": 2}, "$unset": {"m": 1}})
        orders.replace_one({"_id": 100}, {"n": 3})
        orders.delete_one({"_id": 100})
        seen = events(stream, 4)
    assert [event["operationType"] for event in seen] == ["insert", "update", "replace", "delete"]
    assert all(event["ns"] == {"db": "shop", "coll": "orders"} for event in seen)
    assert all(event["documentKey"] == {"_id": 100} for event in seen)
    assert seen[0]["fullDocument"] == {"_id": 100, "n": 1}
    assert seen[1]["updateDescription"]["updatedFields"] == {"n": 2}
    assert seen[2]["fullDocument"] == {"_id": 100, "n": 3}


def test_a_stream_goes_on_where_another_ended(db, orders):
    with db.watch(max_await_time_ms=50) as stream:
        for i in range(100, 110):
            orders.insert_one({"_id": i})
        first = events(stream, 3)
        token = stream.resume_token
    with db.watch(resume_after=token) as stream:
        rest = events(stream, 7)
    assert [event["documentKey"]["_id"] for event in first + rest] == list(range(100, 110))
    with db.watch(start_at_operation_time=first[0]["clusterTime"]) as stream:
        assert next(stream)["documentKey"]["_id"] == 100


def test_a_stream_filters_and_sees_documents_before(db):
    db.create_collection("stock", changeStreamPreAndPostImages={"enabled": True})
    db.stock.insert_one({"_id": 1, "n": 5})
    pipeline = [{"$match": {"operationType": "update"}}, {"$project": {"fullDocumentBeforeChange": 1}}]
    with db.stock.watch(pipeline, full_document_before_change="required", max_await_time_ms=50) as stream:
        db.stock.insert_one({"_id": 2})
        db.stock.update_one({"_id": 1}, {"$inc": {"n": 1}})
        assert next(stream)["fullDocumentBeforeChange"] == {"_id": 1, "n": 5}


def test_a_stream_waits_for_what_another_thread_writes(client, db):
    with client.watch(max_await_time_ms=10_000) as stream:
        timer = threading.Timer(0.2, lambda: db.late.insert_one({"_id": 1}))
        timer.start()
        assert next(stream)["ns"]["coll"] == "late"
        timer.join()


def test_a_transaction_is_shown_when_it_is_committed(client, db, orders):
    with orders.watch(max_await_time_ms=50) as stream, client.start_session() as session:
        session.start_transaction()
        orders.insert_many([{"_id": 200}, {"_id": 201}], session=session)
        assert stream.try_next() is None
        session.commit_transaction()
        seen = events(stream, 2)
    assert [event["documentKey"]["_id"] for event in seen] == [200, 201]
    assert seen[0]["txnNumber"] == seen[1]["txnNumber"] and "lsid" in seen[0]


def test_a_stream_ends_with_its_collection(db, orders):
    with orders.watch(max_await_time_ms=50) as stream:
        orders.drop()
        assert [event["operationType"] for event in events(stream, 2)] == ["drop", "invalidate"]
        with pytest.raises(StopIteration):
            next(stream)
    with pytest.raises(PyMongoError):
        with orders.watch([{"$group": {"_id": 1}}]) as stream:
            next(stream)
