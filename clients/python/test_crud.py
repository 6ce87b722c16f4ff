"""Documents that are written, found and changed, one at a time and in bulk."""

import asyncio
import datetime

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import AsyncMongoClient, DeleteOne, InsertOne, ReplaceOne, ReturnDocument, UpdateMany, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError
from pymongo.write_concern import WriteConcern


def test_every_type_comes_back_as_it_was_written(db):
    document = {
        "_id": ObjectId(),
        "double": 1.5,
        "string": "žluťoučký \0 kůň",
        "document": {"z": 1, "a": {"deep": [1, [2, {"x": None}]]}},
        "binary": Binary(b"\x00\xff", 128),
        "bool": True,
        "date": datetime.datetime(1969, 7, 20, 20, 17, 40, 123000),
        "regex": Regex("^a.b$", "im"),
        "code": Code("f()"),
        "scoped": Code("f()", {"x": 1}),
        "int": -7,
        "long": Int64(2**60),
        "timestamp": Timestamp(4, 2),
        "decimal": Decimal128("12345678901234567890.123456789"),
        "min": MinKey(),
        "max": MaxKey(),
    }
    assert db.types.insert_one(document).inserted_id == document["_id"]
    found = db.types.find_one()
    assert found == document
    assert list(found) == list(document)
    for name, kind in [("double", "double"), ("long", "long"), ("int", "int"), ("decimal", "decimal")]:
        assert db.types.count_documents({name: {"$type": kind}}) == 1


def test_a_duplicate_key_tells_which_index_and_value(db):
    db.people.create_index("mail", unique=True)
    db.people.insert_one({"_id": 1, "mail": "a@example.com"})
    with pytest.raises(DuplicateKeyError) as error:
        db.people.insert_one({"_id": 2, "mail": "a@example.com"})
    assert error.value.code == 11000
    assert error.value.details["keyPattern"] == {"mail": 1}
    assert error.value.details["keyValue"] == {"mail": "a@example.com"}


def test_finds_filter_sort_skip_limit_and_project(orders):
    found = orders.find({"total": {"$gte": 20, "$lt": 90}}, {"total": 1, "_id": 0}).sort("total", -1).skip(1).limit(3)
    assert list(found) == [{"total": 70}, {"total": 60}, {"total": 50}]
    assert orders.count_documents({"lines": {"$elemMatch": {"$gt": 3, "$lt": 5}}}) == 2
    assert sorted(orders.distinct("customer", {"total": {"$gt": 0}})) == ["a", "b"]
    assert orders.estimated_document_count() == 10
    assert orders.find_one({"$expr": {"$eq": ["$_id", {"$divide": ["$total", 10]}]}, "_id": 4})["total"] == 40


def test_updates_count_what_they_match_and_what_they_change(orders):
    changed = orders.update_many({"customer": "a"}, {"$set": {"customer": "a"}, "$max": {"total": 30}})
    assert (changed.matched_count, changed.modified_count) == (5, 2)
    assert orders.update_one({"_id": 1, "lines": 2}, {"$set": {"lines.$": 20}}).modified_count == 1
    orders.update_one({"_id": 2}, {"$inc": {"lines.$[big]": 100}}, array_filters=[{"big": {"$gt": 2}}])
    assert orders.find_one({"_id": 2})["lines"] == [2, 103]
    orders.update_one({"_id": 3}, [{"$set": {"sum": {"$sum": "$lines"}}}, {"$unset": "lines"}])
    assert orders.find_one({"_id": 3}) == {"_id": 3, "customer": "b", "total": 30, "sum": 7}
    upserted = orders.update_one({"_id": 77}, {"$setOnInsert": {"new": True}}, upsert=True)
    assert (upserted.upserted_id, upserted.matched_count) == (77, 0)
    assert orders.replace_one({"_id": 77}, {"other": 1}).modified_count == 1
    assert orders.delete_many({"total": {"$gt": 60}}).deleted_count == 3
    with pytest.raises(WriteError):
        orders.update_one({"_id": 1}, {"$inc": {"customer": 1}})


def test_find_and_modify_returns_the_document_before_or_after(orders):
    assert orders.find_one_and_update({"_id": 1}, {"$inc": {"total": 1}})["total"] == 10
    after = orders.find_one_and_update(
        {"customer": "b"}, {"$inc": {"total": 1}}, sort=[("_id", -1)], return_document=ReturnDocument.AFTER
    )
    assert (after["_id"], after["total"]) == (9, 91)
    assert orders.find_one_and_replace({"_id": 404}, {"x": 1}, upsert=True) is None
    assert orders.find_one_and_delete({"_id": 404}, projection={"_id": 0}) == {"x": 1}


def test_bulk_writes_stop_at_an_error_if_they_are_ordered(db):
    writes = [InsertOne({"_id": 1}), InsertOne({"_id": 1}), UpdateOne({"_id": 1}, {"$set": {"x": 1}})]
    with pytest.raises(BulkWriteError) as error:
        db.ordered.bulk_write(writes)
    assert error.value.details["nInserted"] == 1 and error.value.details["nModified"] == 0
    assert error.value.details["writeErrors"][0]["index"] == 1
    with pytest.raises(BulkWriteError) as error:
        db.unordered.bulk_write(writes, ordered=False)
    assert error.value.details["nInserted"] == 1 and error.value.details["nModified"] == 1


def test_bulk_writes_of_all_kinds(db):
    db.mixed.insert_many({"_id": i, "n": i} for i in range(100))
    result = db.mixed.bulk_write(
        [
            InsertOne({"_id": 100}),
            UpdateMany({"n": {"$lt": 10}}, {"$inc": {"n": 1000}}),
            ReplaceOne({"_id": 200}, {"n": 1}, upsert=True),
            DeleteOne({"_id": 50}),
            UpdateOne({"_id": 51}, {"$set": {"n": 51}}),
        ]
    )
    assert (result.inserted_count, result.modified_count, result.matched_count) == (1, 10, 11)
    assert (result.deleted_count, result.upserted_ids) == (1, {2: 200})


def test_one_bulk_write_over_many_collections(client):
    result = client.bulk_write(
        [
            InsertOne({"_id": 1}, namespace="shop.a"),
            InsertOne({"_id": 1}, namespace="shop.b"),
            UpdateOne({"_id": 1}, {"$set": {"x": 1}}, namespace="shop.b"),
            DeleteOne({"_id": 1}, namespace="shop.a"),
        ],
        verbose_results=True,
    )
    assert (result.inserted_count, result.modified_count, result.deleted_count) == (2, 1, 1)
    assert client.shop.b.find_one() == {"_id": 1, "x": 1}


def test_many_large_documents_in_one_batch(db):
    db.large.insert_many({"_id": i, "body": "x" * 1_000_000} for i in range(60))
    assert db.large.count_documents({}) == 60
    assert sum(len(document["body"]) for document in db.large.find()) == 60_000_000


def test_unacknowledged_writes_arrive(db):
    quiet = db.get_collection("quiet", write_concern=WriteConcern(w=0))
    assert not quiet.insert_one({"_id": 1}).acknowledged
    # The same connection answers commands in their order.
    assert db.quiet.find_one({"_id": 1}) is not None or db.quiet.find_one({"_id": 1}) is not None


def test_pipelines_group_join_and_write(db, orders):
    db.customers.insert_many([{"_id": "a", "name": "Ann"}, {"_id": "b", "name": "Bob"}])
    pipeline = [
        {"$match": {"total": {"$gt": 0}}},
        {"$group": {"_id": "$customer", "spent": {"$sum": "$total"}, "orders": {"$push": "$_id"}}},
        {"$lookup": {"from": "customers", "localField": "_id", "foreignField": "_id", "as": "who"}},
        {"$set": {"who": {"$first": "$who.name"}}},
        {"$sort": {"_id": 1}},
    ]
    expected = [
        {"_id": "a", "spent": 200, "orders": [2, 4, 6, 8], "who": "Ann"},
        {"_id": "b", "spent": 250, "orders": [1, 3, 5, 7, 9], "who": "Bob"},
    ]
    assert list(orders.aggregate(pipeline)) == expected
    list(orders.aggregate([*pipeline, {"$out": "spent"}]))
    assert list(db.spent.find()) == expected
    merge = {"$merge": {"into": "spent", "whenMatched": [{"$set": {"twice": {"$multiply": ["$$new.spent", 2]}}}]}}
    list(orders.aggregate([*pipeline, merge]))
    assert [document["twice"] for document in db.spent.find()] == [400, 500]


def test_views_validators_and_names(db, orders):
    db.create_collection("large", viewOn="orders", pipeline=[{"$match": {"total": {"$gte": 50}}}])
    assert db.large.count_documents({}) == 5
    db.create_collection("checked", validator={"$jsonSchema": {"required": ["name"]}})
    with pytest.raises(WriteError) as error:
        db.checked.insert_one({"nome": 1})
    assert error.value.code == 121
    orders.rename("sold")
    assert sorted(db.list_collection_names(filter={"type": "collection"})) == ["checked", "sold"]
    assert db.command("collStats", "sold")["count"] == 10
    assert db.validate_collection("sold", full=True)["valid"]
    db.drop_collection("sold")
    assert "sold" not in db.list_collection_names()


def test_errors_name_their_code(db):
    for command, code, name in [
        ({"noSuchCommand": 1}, 59, "CommandNotFound"),
        ({"find": "x", "filter": {"$no": 1}}, 2, "BadValue"),
        ({"find": "x", "noSuchField": 1}, 40415, "IDLUnknownField"),
        ({"getMore": Int64(12345), "collection": "x"}, 43, "CursorNotFound"),
        ({"aggregate": "x", "pipeline": [{"$no": {}}], "cursor": {}}, 40324, "Location40324"),
        ({"dropIndexes": "x", "index": "y"}, 26, "NamespaceNotFound"),
    ]:
        with pytest.raises(OperationFailure) as error:
            db.command(command)
        assert (error.value.code, error.value.details["codeName"]) == (code, name)


def test_the_asynchronous_client(replica_set, client):
    async def work():
        async with AsyncMongoClient(f"mongodb://{replica_set.address}", replicaSet="rs0") as other:
            numbers = other.shop.numbers
            await asyncio.gather(*(numbers.insert_one({"_id": i}) for i in range(50)))
            return [document["_id"] async for document in numbers.find().sort("_id").batch_size(7)]

    assert asyncio.run(work()) == list(range(50))


def test_a_standalone_server_serves_documents(standalone):
    with standalone.client() as client:
        assert client.admin.command("hello").get("setName") is None
        client.shop.things.insert_one({"_id": 1})
        assert client.shop.things.find_one() == {"_id": 1}
        client.drop_database("shop")
        assert "shop" not in client.list_database_names()
