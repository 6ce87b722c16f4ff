"""Strings that are compared by the rules of a language."""

import pytest
from pymongo import DeleteOne, UpdateOne
from pymongo.collation import Collation
from pymongo.errors import DuplicateKeyError, OperationFailure

IGNORES_CASE = Collation("en", strength=2)


@pytest.fixture
def people(db):
    people = db.create_collection("people", collation=IGNORES_CASE)
    people.insert_many([{"_id": "Ada", "name": "Ada"}, {"_id": "bob", "name": "BOB"}, {"_id": "eve", "name": "eve"}])
    return people


def test_the_collation_of_a_collection_is_that_of_its_operations(people):
    assert people.options()["collation"]["version"] == "57.1"
    assert people.find_one({"_id": "ADA"})["name"] == "Ada"
    assert [found["name"] for found in people.find().sort("name", -1)] == ["eve", "BOB", "Ada"]
    assert people.count_documents({"name": {"$in": ["ada", "Bob"]}}) == 2
    assert people.count_documents({"name": "ada"}, collation=Collation("simple")) == 0
    with pytest.raises(DuplicateKeyError):
        people.insert_one({"_id": "aDA"})


def test_an_index_inherits_the_collation_and_is_unique_by_it(people):
    people.create_index("name", unique=True)
    assert people.index_information()["name_1"]["collation"]["strength"] == 2
    with pytest.raises(DuplicateKeyError):
        people.insert_one({"_id": 1, "name": "ADA"})
    plan = people.find({"name": "ADA"}).explain()["queryPlanner"]["winningPlan"]
    assert plan["inputStage"]["indexName"] == "name_1"
    plan = people.find({"name": "Ada"}, collation=Collation("fr")).explain()["queryPlanner"]["winningPlan"]
    assert plan["stage"] == "COLLSCAN"


def test_statements_have_collations_of_their_own(db):
    db.words.insert_many([{"_id": 1, "w": "a"}, {"_id": 2, "w": "A"}, {"_id": 3, "w": "b"}])
    done = db.words.bulk_write(
        [
            UpdateOne({"w": "B"}, {"$set": {"n": 1}}, collation=IGNORES_CASE),
            UpdateOne({"w": "B"}, {"$set": {"n": 2}}),
            DeleteOne({"w": "B"}, collation=IGNORES_CASE),
        ]
    )
    assert (done.matched_count, done.deleted_count) == (1, 1)
    assert db.words.distinct("w", collation=IGNORES_CASE) == ["a"]
    groups = db.words.aggregate([{"$group": {"_id": "$w", "n": {"$sum": 1}}}], collation=IGNORES_CASE)
    assert list(groups) == [{"_id": "a", "n": 2}]


def test_a_change_stream_tells_ids_as_they_were(people):
    with people.watch() as stream:
        people.update_one({"_id": "ada"}, {"$set": {"n": 1}})
        people.delete_one({"_id": "ADA"})
        assert [stream.next()["documentKey"] for _ in range(2)] == [{"_id": "Ada"}] * 2


def test_a_view_cannot_be_read_with_another_collation(db, people):
    db.create_collection("seen", viewOn="people", pipeline=[], collation=IGNORES_CASE)
    assert db.seen.count_documents({"name": "EVE"}) == 1
    with pytest.raises(OperationFailure) as refused:
        db.seen.find_one(collation=Collation("de"))
    assert refused.value.code == 167
