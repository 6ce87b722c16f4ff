"""Indexes that are made, listed, used and dropped."""

import pytest
from pymongo import ASCENDING, DESCENDING, HASHED, IndexModel
from pymongo.errors import DuplicateKeyError, OperationFailure


def stages(plan):
    """The names of a plan's stages, outermost first."""
    names = []
    while plan:
        names.append(plan["stage"])
        plan = plan.get("inputStage")
    return names


def test_indexes_are_listed_with_their_options(db):
    names = db.items.create_indexes(
        [
            IndexModel([("a", ASCENDING), ("b", DESCENDING)], unique=True),
            IndexModel("c", sparse=True, name="third"),
            IndexModel("d", partialFilterExpression={"d": {"$gt": 5}}),
            IndexModel("t", expireAfterSeconds=3600),
            IndexModel([("h", HASHED)]),
            IndexModel([("$**", 1)], wildcardProjection={"w": 1}),
        ]
    )
    assert names == ["a_1_b_-1", "third", "d_1", "t_1", "h_hashed", "$**_1"]
    listed = db.items.index_information()
    assert listed["a_1_b_-1"] == {"v": 2, "key": [("a", 1), ("b", -1)], "unique": True}
    assert listed["third"]["sparse"] and listed["t_1"]["expireAfterSeconds"] == 3600
    assert listed["d_1"]["partialFilterExpression"] == {"d": {"$gt": 5}}
    assert listed["$**_1"]["wildcardProjection"] == {"w": 1}
    db.items.drop_index("third")
    db.items.drop_indexes()
    assert list(db.items.index_information()) == ["_id_"]


def test_finds_use_indexes(orders):
    orders.create_index([("customer", 1), ("total", 1)])
    query = {"customer": "a", "total": {"$gt": 20}}
    explained = orders.find(query, {"_id": 0, "total": 1}).sort("total", -1).explain()
    assert stages(explained["queryPlanner"]["winningPlan"])[-1] == "IXSCAN"
    assert "FETCH" not in stages(explained["queryPlanner"]["winningPlan"])
    assert explained["executionStats"]["totalKeysExamined"] == 3
    found = orders.find(query, {"_id": 0, "total": 1}).sort("total", -1)
    assert [document["total"] for document in found] == [80, 60, 40]
    assert orders.find(query).hint("_id_").explain()["executionStats"]["totalDocsExamined"] == 10
    with pytest.raises(OperationFailure):
        list(orders.find(query).hint("no_such_index"))


def test_a_unique_index_is_refused_when_values_are_there_twice(orders):
    with pytest.raises(DuplicateKeyError):
        orders.create_index("customer", unique=True)
    assert list(orders.index_information()) == ["_id_"]


def test_an_index_with_another_name_or_other_options_is_refused(orders):
    orders.create_index("total")
    assert orders.create_index("total") == "total_1"
    for options, code in [({"name": "other"}, 85), ({"unique": True}, 86), ({"sparse": True}, 86)]:
        with pytest.raises(OperationFailure) as error:
            orders.create_index("total", **options)
        assert error.value.code == code, options


def test_multikey_indexes_find_what_a_scan_finds(orders):
    orders.create_index("lines")
    for value in range(12):
        expected = [i for i in range(10) if value in (i, i + 1)]
        assert [document["_id"] for document in orders.find({"lines": value}).sort("_id")] == expected
