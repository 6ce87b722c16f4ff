"""Documents as columns: tables and record batches of pyarrow.

The columns are those of a schema, else of an inclusive projection, else the fields of the documents in the order in
which they come. A field that a document lacks is null. Types are those of a schema, else what the values are:

==================  =============================================================
BSON                Arrow
==================  =============================================================
double, int, long   double, or int64 where all are whole
string, bool        string, bool
date                timestamp, without a time zone: UTC
ObjectId            fixed_size_binary(12)
binary              binary
decimal             decimal128
timestamp           struct of `time` and `inc`
document, array     struct, list
==================  =============================================================
"""

import decimal

from .._errors import InvalidError
from ._codec import ObjectId, Timestamp

_AS_THEY_ARE = (bool, int, float, str, bytes, decimal.Decimal)


def _plain(value, name):
    """A value of a document as pyarrow takes it."""
    if value is None or isinstance(value, _AS_THEY_ARE) or hasattr(value, "utcoffset"):
        return value
    if isinstance(value, ObjectId):
        return value.binary
    if isinstance(value, Timestamp):
        return {"time": value.time, "inc": value.inc}
    if hasattr(value, "to_decimal"):
        return value.to_decimal()
    if isinstance(value, dict):
        return {key: _plain(inner, f"{name}.{key}") for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, name) for inner in value]
    raise InvalidError(f"field {name} has a {type(value).__name__}, which Arrow does not: leave it out by a projection")


def _projected(projection):
    """The columns of an inclusive projection, or `None`."""
    if not projection:
        return None
    others = {name: shown for name, shown in projection.items() if name != "_id"}
    if not all(others.values()) or not (others or projection["_id"]):
        return None
    first = ["_id"] if projection.get("_id", True) else []
    return list(dict.fromkeys(first + [name.partition(".")[0] for name in others]))


def _is_object_ids(values):
    return any(isinstance(value, ObjectId) for value in values) and all(
        value is None or isinstance(value, ObjectId) for value in values
    )


def _array(pyarrow, name, values, kind):
    """The column of a field; `kind` is its type, or `None` for what the values are."""
    if kind is None and _is_object_ids(values):
        kind = pyarrow.binary(12)
    try:
        return pyarrow.array([_plain(value, name) for value in values], type=kind)
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidError):
            raise
        what = "different types: give a schema, or leave it out by a projection" if kind is None else f"not all {kind}"
        raise InvalidError(f"the values of field {name} are {what} ({error})") from error


def _batch(pyarrow, documents, names, schema):
    arrays = [
        _array(pyarrow, name, [document.get(name) for document in documents], schema and schema.field(name).type)
        for name in names
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema or pyarrow.schema(zip(names, (a.type for a in arrays))))


def batches(cursor, projection, schema, rows):
    """Record batches of one schema, of at most `rows` documents each; one without rows if there is no document."""
    import pyarrow

    if rows is not None and rows < 1:
        raise InvalidError(f"rows is {rows}: it must be 1 or more")
    if schema is not None and not isinstance(schema, pyarrow.Schema):
        schema = pyarrow.schema(list(schema.items()))
    given = schema is not None
    names = schema.names if given else _projected(projection)
    first = True
    while True:
        documents = []
        for document in cursor:
            documents.append(document)
            if len(documents) == rows:
                break
        if not documents and not first:
            return
        if names is None:
            names = list(dict.fromkeys(name for document in documents for name in document))
        if not given:
            known = set(names)
            late = next((name for document in documents for name in document if name not in known), None)
            if late is not None:
                raise InvalidError(f"field {late} comes after the first {rows} documents: give a schema, or more rows")
        batch = _batch(pyarrow, documents, names, schema)
        schema, first = batch.schema, False
        yield batch


def table(cursor, projection, schema):
    """One table of all documents."""
    import pyarrow

    return pyarrow.Table.from_batches(batches(cursor, projection, schema, None))
