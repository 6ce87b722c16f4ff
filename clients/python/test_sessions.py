"""Sessions: transactions, writes that are sent again, and reads of one moment."""

import threading

import pytest
from conftest import fail_point
from pymongo.errors import AutoReconnect, ConnectionFailure, OperationFailure
from pymongo.read_concern import ReadConcern


def test_a_transaction_is_seen_when_it_is_committed(client, db, orders):
    with client.start_session() as session:
        with session.start_transaction():
            orders.insert_one({"_id": 100}, session=session)
            db.other.insert_one({"_id": 1}, session=session)
            assert orders.count_documents({}, session=session) == 11
            assert orders.count_documents({}) == 10
        assert (orders.count_documents({}), db.other.count_documents({})) == (11, 1)


def test_a_transaction_that_is_aborted_leaves_nothing(client, orders):
    with client.start_session() as session:
        with pytest.raises(ZeroDivisionError):
            with session.start_transaction():
                orders.delete_many({}, session=session)
                1 / 0
    assert orders.count_documents({}) == 10


def test_two_writers_of_one_document_conflict(client, orders):
    with client.start_session() as one, client.start_session() as two:
        one.start_transaction()
        two.start_transaction()
        orders.update_one({"_id": 1}, {"$inc": {"total": 1}}, session=one)
        with pytest.raises(OperationFailure) as error:
            orders.update_one({"_id": 1}, {"$inc": {"total": 1}}, session=two)
        assert error.value.code == 112 and error.value.has_error_label("TransientTransactionError")
        one.commit_transaction()
        two.abort_transaction()
    assert orders.find_one({"_id": 1})["total"] == 11


def test_transactions_with_callbacks_are_tried_until_they_commit(client, orders):
    orders.insert_one({"_id": "counter", "n": 0})

    def add(session):
        n = orders.find_one({"_id": "counter"}, session=session)["n"]
        orders.update_one({"_id": "counter"}, {"$set": {"n": n + 1}}, session=session)

    def work():
        for _ in range(10):
            with client.start_session() as session:
                session.with_transaction(add)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert orders.find_one({"_id": "counter"})["n"] == 40


def test_a_commit_that_fails_is_sent_again(client, orders):
    with client.start_session() as session:
        session.start_transaction()
        orders.insert_one({"_id": 100}, session=session)
        with fail_point(client, {"times": 1}, failCommands=["commitTransaction"], closeConnection=True):
            session.commit_transaction()
    assert orders.count_documents({"_id": 100}) == 1


def test_a_write_whose_connection_breaks_is_done_once(client, orders):
    with fail_point(client, {"times": 1}, failCommands=["update"], closeConnection=True):
        assert orders.update_one({"_id": 1}, {"$inc": {"total": 1}}).modified_count == 1
    assert orders.find_one({"_id": 1})["total"] == 11
    # The write was done, and only its reply is lost.
    lost = {"errorLabels": ["RetryableWriteError"], "writeConcernError": {"code": 91, "errmsg": "the end"}}
    with fail_point(client, {"times": 1}, failCommands=["insert"], **lost):
        orders.insert_one({"_id": 100})
    assert orders.count_documents({"_id": 100}) == 1


def test_a_read_is_sent_again_once(client, orders):
    with fail_point(client, {"times": 1}, failCommands=["find"], errorCode=189):
        assert orders.find_one({"_id": 1})["total"] == 10
    with fail_point(client, {"times": 2}, failCommands=["find"], closeConnection=True):
        with pytest.raises((AutoReconnect, ConnectionFailure)):
            orders.find_one({"_id": 1})


def test_a_snapshot_session_reads_one_moment(client, db, orders):
    with client.start_session(snapshot=True) as session:
        assert orders.count_documents({}, session=session) == 10
        orders.delete_many({"_id": {"$lt": 5}})
        assert orders.count_documents({}, session=session) == 10
        assert len(list(orders.aggregate([{"$match": {}}], session=session))) == 10
    assert orders.count_documents({}) == 5


def test_a_session_reads_what_it_wrote(client, db):
    majority = db.get_collection("mine", read_concern=ReadConcern("majority"))
    with client.start_session(causal_consistency=True) as session:
        for i in range(20):
            majority.insert_one({"_id": i}, session=session)
            assert majority.find_one({"_id": i}, session=session) is not None
        assert session.operation_time is not None and session.cluster_time is not None
