"""The document database."""

import datetime
import subprocess
import sys
import textwrap

import pytest

import spinney
from spinney import documents
from spinney.documents import DeleteMany, InsertOne, ReplaceOne, UpdateMany, UpdateOne


@pytest.fixture
def people(client):
    """A collection with three documents."""
    people = client["app"]["people"]
    people.insert_many([{"_id": 1, "name": "Ann", "age": 31}, {"_id": 2, "name": "Bob", "age": 27}, {"_id": 3}])
    return people


def test_documents_come_and_go(people):
    made = people.insert_one({"name": "Eve", "tags": ["a", "b"], "at": datetime.datetime(2026, 1, 2, 3, 4, 5)})
    found = people.find_one(made.inserted_id)
    assert found["tags"] == ["a", "b"] and found["at"] == datetime.datetime(2026, 1, 2, 3, 4, 5)
    assert people.update_one({"_id": 1}, {"$inc": {"age": 1}}).modified_count == 1
    assert people.update_one({"_id": 9}, {"$set": {"age": 1}}, upsert=True).upserted_id == 9
    assert people.update_many({}, {"$set": {"seen": True}}).matched_count == 5
    assert people.replace_one({"_id": 3}, {"name": "Cid"}).modified_count == 1
    assert people.find_one(3) == {"_id": 3, "name": "Cid"}
    assert people.find_one_and_update({"_id": 1}, {"$inc": {"age": 1}}, return_after=True)["age"] == 33
    assert people.find_one_and_delete({"_id": 9})["age"] == 1
    assert people.delete_many({"seen": True}).deleted_count == 3
    assert people.count_documents({}) == 1 == people.estimated_document_count()


def test_queries(people):
    assert [one["_id"] for one in people.find({"age": {"$gt": 20}}, ["_id"]).sort("age")] == [2, 1]
    assert people.find_one({"_id": 7}) is None
    assert sorted(people.distinct("name")) == ["Ann", "Bob"]
    people.insert_many({"_id": number} for number in range(100, 1600))
    assert len(people.find().batch_size(10).to_list()) == 1503
    assert [one["_id"] for one in people.find(sort=[("_id", -1)], skip=1, limit=2)] == [1598, 1597]
    grouped = people.aggregate([{"$group": {"_id": None, "n": {"$sum": 1}, "age": {"$avg": "$age"}}}]).to_list()
    assert grouped == [{"_id": None, "n": 1503, "age": 29.0}]
    people.aggregate([{"$match": {"_id": {"$lt": 3}}}, {"$out": "copy"}])
    assert people.database["copy"].count_documents({}) == 2
    assert people.find({"name": "ann"}).collation({"locale": "en", "strength": 2}).next()["_id"] == 1
    cursor = people.find().batch_size(2)
    next(cursor)
    cursor.close()
    assert not cursor.alive
    assert people.find({"age": 1}).explain()["queryPlanner"]["winningPlan"]["stage"] == "COLLSCAN"


def test_indexes(people):
    assert people.create_index("name", unique=True) == "name_1"
    assert people.create_index([("age", 1), ("name", -1)]) == "age_1_name_-1"
    with pytest.raises(documents.DuplicateKeyError) as told:
        people.insert_one({"name": "Ann"})
    assert told.value.code == 11000 and told.value.details["keyValue"] == {"name": "Ann"}
    assert people.index_information()["name_1"]["unique"]
    people.drop_index("name_1")
    assert sorted(people.index_information()) == ["_id_", "age_1_name_-1"]


def test_bulk_writes(people):
    done = people.bulk_write(
        [
            InsertOne({"_id": 4}),
            UpdateOne({"_id": 4}, {"$set": {"age": 4}}),
            UpdateMany({"age": {"$gt": 20}}, {"$inc": {"age": 1}}),
            ReplaceOne({"_id": 5}, {"age": 5}, upsert=True),
            DeleteMany({"age": {"$gt": 30}}),
        ]
    )
    assert (done.inserted_count, done.modified_count, done.deleted_count) == (1, 3, 1)
    assert done.upserted_ids == {3: 5}
    with pytest.raises(documents.BulkWriteError) as told:
        people.insert_many([{"_id": 6}, {"_id": 6}, {"_id": 7}], ordered=False)
    assert told.value.details["nInserted"] == 2 and told.value.details["writeErrors"][0]["index"] == 1


def test_large_inserts(people):
    people.insert_many([{"_id": number, "text": "x" * 100_000} for number in range(1000, 1500)])
    assert people.count_documents({"text": {"$exists": True}}) == 500


def test_transactions(client, people):
    with client.start_session() as session:
        with session.start_transaction():
            people.insert_one({"_id": 10}, session=session)
            assert people.find_one(10) is None and people.find_one(10, session=session) == {"_id": 10}
        assert people.find_one(10) == {"_id": 10}
        with pytest.raises(ZeroDivisionError), session.start_transaction():
            people.delete_many({}, session=session)
            1 / 0
        assert people.count_documents({}) == 4
        assert session.with_transaction(lambda own: people.delete_many({}, session=own).deleted_count) == 4
    assert people.count_documents({}) == 0


def test_change_streams(people):
    with people.watch([{"$match": {"operationType": "insert"}}], max_await_time_ms=100) as stream:
        assert stream.try_next() is None
        people.delete_one({"_id": 1})
        people.insert_one({"_id": 4})
        change = next(stream)
        assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": 4})
        token = stream.resume_token
    people.insert_one({"_id": 5})
    with people.watch(resumeAfter=token) as stream:
        assert next(stream)["documentKey"] == {"_id": 5}


def test_databases_and_collections(client, people):
    app = client["app"]
    own = ["admin", "config", "local"]
    assert sorted(client.list_database_names()) == sorted(["app", *own]) and app.list_collection_names() == ["people"]
    app.create_collection("checked", validator={"age": {"$gt": 0}})
    with pytest.raises(documents.WriteError) as told:
        app.checked.insert_one({"age": -1})
    assert told.value.code == 121
    people.rename("folk")
    assert sorted(app.list_collection_names()) == ["checked", "folk"]
    app["folk"].drop()
    assert app.command("ping") == {"ok": 1.0}
    with pytest.raises(documents.OperationFailure, match="CommandNotFound"):
        app.command("nonsense")
    client.drop_database("app")
    assert client.list_database_names() == own


def test_plain_dicts_without_pymongo(tmp_path):
    # The same in a process that has no package `bson`.
    program = textwrap.dedent("""
        import datetime, decimal, re, sys
        sys.modules["bson"] = None
        from spinney import documents
        from spinney.documents import _plain
        assert documents.ObjectId is _plain.ObjectId
        with documents.open(sys.argv[1]) as client:
            values = {
                "_id": documents.ObjectId(), "f": 1.5, "s": "text", "d": {"a": 1}, "l": [1, "x", None], "b": b"bytes",
                "t": True, "n": None, "i": -5, "long": 1 << 40, "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6000),
                "re": re.compile("a.*b", re.IGNORECASE), "dec": decimal.Decimal("-12.50"), "big": decimal.Decimal("1E+6111"),
                "inf": decimal.Decimal("-Infinity"), "ts": documents.Timestamp(7, 8),
            }
            things = client["a"]["b"]
            things.insert_one(values)
            found = things.find_one()
            assert repr(found) == repr(values), (found, values)
            assert things.find_one({"dec": {"$lt": 0}, "re": values["re"]})["_id"] == values["_id"]
            assert list(_plain.decode(_plain.encode({"n": decimal.Decimal("NaN")})))
            with client.start_session() as session, session.start_transaction():
                things.insert_one({"_id": 1}, session=session)
            assert things.count_documents({}) == 2
            try:
                things.insert_one({"x": 1 << 64})
            except ValueError as error:
                assert "64 bits" in str(error)
            else:
                assert False
    """)
    subprocess.run([sys.executable, "-c", program, tmp_path / "plain"], check=True)


def test_columns(people):
    arrow = pytest.importorskip("pyarrow")
    table = people.find({}, ["age", "name"]).sort("_id").to_arrow()
    assert table.column_names == ["_id", "age", "name"]
    assert table.to_pydict() == {"_id": [1, 2, 3], "age": [31, 27, None], "name": ["Ann", "Bob", None]}
    assert people.find({}, {"none": 1, "_id": 0}).to_arrow().column("none").null_count == 3
    grouped = people.aggregate([{"$group": {"_id": None, "age": {"$avg": "$age"}}}]).to_arrow()
    assert grouped.to_pylist() == [{"_id": None, "age": 29.0}]
    schema = arrow.schema([("age", arrow.float32()), ("city", arrow.string())])
    table = people.find().sort("_id").to_arrow(schema)
    assert table.schema == schema and table.column("age").to_pylist() == [31.0, 27.0, None]
    assert people.find({"_id": 9}).to_arrow({"age": arrow.int8()}).num_rows == 0
    frame = people.find({"age": {"$gt": 0}}).sort("_id").to_pandas()
    assert list(frame["name"]) == ["Ann", "Bob"]


def test_columns_of_every_type(client):
    arrow = pytest.importorskip("pyarrow")
    things = client["app"]["things"]
    at = datetime.datetime(2026, 1, 2, 3, 4, 5)
    made = things.insert_one({"b": b"x", "l": [1, 2], "d": {"e": "f"}, "at": at, "t": True, "n": 1})
    things.insert_one({"_id": None, "n": 2.5})
    (row, other) = things.find().sort("n").to_arrow().to_pylist()
    assert row == {"_id": made.inserted_id.binary, "b": b"x", "l": [1, 2], "d": {"e": "f"}, "at": at, "t": True, "n": 1.0}
    assert other["n"] == 2.5 and other["l"] is None
    assert things.find().to_arrow().schema.field("_id").type == arrow.binary(12)


def test_columns_in_batches(client):
    pytest.importorskip("pyarrow")
    numbers = client["app"]["numbers"]
    numbers.insert_many({"_id": number, "odd": bool(number % 2)} for number in range(25))
    batches = list(numbers.find().to_arrow_batches(rows=10))
    assert [batch.num_rows for batch in batches] == [10, 10, 5]
    numbers.insert_one({"_id": 25, "odd": "?", "late": 1})
    with pytest.raises(spinney.InvalidError, match="field late comes after the first 10"):
        list(numbers.find().to_arrow_batches(rows=10))
    with pytest.raises(spinney.InvalidError, match="field odd are different types"):
        numbers.find().to_arrow()
    with pytest.raises(spinney.InvalidError, match="field odd are not all bool"):
        numbers.find().to_arrow({"odd": "bool"})
    with pytest.raises(spinney.InvalidError, match="rows is 0"):
        next(numbers.find().to_arrow_batches(rows=0))
