"""Transactions and the change feed."""

import threading

import pytest

import spinney


def test_a_transaction_is_all_or_nothing(db, table):
    with db.begin() as txn:
        txn[table][b"f"] = b"F"
        assert b"f" in txn[table] and b"f" not in table
        assert list(txn[table].keys(b"e")) == [b"e", b"f"]
    assert table[b"f"] == b"F"
    with pytest.raises(ZeroDivisionError), db.begin() as txn:
        txn[table].clear()
        1 / 0
    assert table.count() == 6 and not txn.is_open
    with pytest.raises(spinney.ClosedError, match="ended"):
        txn[table].get(b"a")


def test_conflicts_are_told_and_tried_again(db, table):
    first, second = db.begin(), db.begin()
    first[table][b"a"] = b"1"
    second[table][b"a"] = b"2"
    first.commit()
    with pytest.raises(spinney.ConflictError):
        second.commit()

    tries = []

    def body(txn):
        tries.append(txn[table][b"a"])
        if len(tries) < 3:
            table[b"a"] = b"between %d" % len(tries)
        txn[table][b"a"] = b"mine"
        return "done"

    assert db.transact(body) == "done"
    assert tries == [b"1", b"between 1", b"between 2"] and table[b"a"] == b"mine"


def test_write_skew_is_refused_when_serializable(db, table):
    first, second = db.begin("serializable"), db.begin("serializable")
    for txn, key in ((first, b"a"), (second, b"b")):
        assert txn[table].count() == 5
        del txn[table][key]
    first.commit()
    with pytest.raises(spinney.ConflictError):
        second.commit()


def test_savepoints(db, table):
    with db.begin() as txn:
        txn[table][b"f"] = b"1"
        point = txn.savepoint()
        txn[table][b"g"] = b"2"
        txn.rollback_to(point)
        txn.release(point)
        with pytest.raises(spinney.InvalidError, match="released"):
            txn.rollback_to(point)
    assert b"f" in table and b"g" not in table


def test_locks(db, table):
    with db.begin() as txn:
        assert txn[table].get_for_update(b"a") == b"A"
        other = db.begin()
        other.set_lock_wait(0.01)
        with pytest.raises(TimeoutError):
            other[table].get_for_update(b"a")
        other.rollback()
        txn[table].lock_range(b"x", b"z")
        txn[table].put_new(b"y", b"Y")
    with pytest.raises(spinney.InvalidError, match="for transactions"):
        table.get_for_update(b"a")


def test_a_waiting_lock_lets_other_threads_run(db, table):
    txn = db.begin()
    txn[table].get_for_update(b"a")
    got = []

    def wait():
        with db.begin() as other:
            got.append(other[table].get_for_update(b"a"))

    thread = threading.Thread(target=wait)
    thread.start()
    txn[table][b"a"] = b"changed"
    txn.commit()
    thread.join(10)
    assert got == [b"changed"]


def test_the_change_feed(db, table):
    feed = db.changes()
    assert feed.poll() is None and feed.wait(0.01) is None
    with db.begin() as txn:
        txn[table][b"f"] = b"F"
        del txn[table][b"a"]
        del txn[table][b"b":b"c"]
        txn.note(b"why")
    commit = feed.wait(5)
    assert commit.note == b"why"
    changes = {(change.table, change.kind, change.key, change.value) for change in commit.changes}
    assert changes == {
        ("letters", "put", b"f", b"F"),
        ("letters", "delete", b"a", b""),
        ("letters", "range-delete", b"b", b"c"),
    }
    table[b"g"] = b"G"
    assert [commit.seqnum for commit in db.changes(commit.end)] == [commit.seqnum for commit in feed]
    assert len(list(db.changes("oldest"))) == 7


def test_a_transaction_is_for_one_thread_at_a_time(db, table):
    txn = db.begin()
    holder = db.begin()
    holder[table].get_for_update(b"a")
    txn.set_lock_wait(5)
    began = threading.Event()

    def wait():
        began.set()
        txn[table].get_for_update(b"a")

    thread = threading.Thread(target=wait)
    thread.start()
    began.wait()
    told = None
    for _ in range(1000):
        try:
            txn[table].get(b"b")
        except spinney.InvalidError as error:
            told = str(error)
            break
    holder.rollback()
    thread.join(10)
    assert told and "another thread" in told
