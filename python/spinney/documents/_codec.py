"""How documents become bytes: by pymongo's package `bson` where it is installed, else from plain dicts."""

try:
    from bson import ObjectId, Timestamp, decode, encode
    from bson.binary import Binary
    from bson.int64 import Int64

    def uuid_value(value):
        """A UUID as a value of a document."""
        return Binary(value.bytes, 4)

    def int64(value):
        """A number that is stored in 64 bits."""
        return Int64(value)

except ImportError:
    from ._plain import Int64 as int64
    from ._plain import ObjectId, Timestamp, Uuid, decode, encode

    def uuid_value(value):
        """A UUID as a value of a document."""
        return Uuid(value.bytes)


__all__ = ["ObjectId", "Timestamp", "decode", "encode", "int64", "uuid_value"]
