"""BSON from and to dicts, for programs without pymongo's package `bson`.

The types: float, str, dict, list, bytes, ObjectId, bool, datetime (UTC, to the millisecond), None, re.Pattern, int (32
bits where it fits, else 64), decimal.Decimal, Timestamp. The format is that of https://bsonspec.org/spec.html.
"""

import datetime
import decimal
import os
import re
import struct
import threading
import time

from .._errors import InvalidError

_EPOCH = datetime.datetime(1970, 1, 1)
_DECIMAL = decimal.Context(prec=34, Emin=-6143, Emax=6144, clamp=1)
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}


class ObjectId:
    """The identity that a document has whose program gave it none: 12 bytes, of which the first are the time."""

    __slots__ = ("binary",)
    _lock = threading.Lock()
    _process = None
    _count = int.from_bytes(os.urandom(3), "big")

    def __init__(self, value=None):
        if value is None:
            value = self._next()
        elif isinstance(value, str):
            value = bytes.fromhex(value)
        if not isinstance(value, bytes) or len(value) != 12:
            raise InvalidError("an ObjectId is 12 bytes or 24 hexadecimal digits")
        self.binary = value

    @classmethod
    def _next(cls):
        with cls._lock:
            if cls._process is None or cls._process[0] != os.getpid():
                cls._process = (os.getpid(), os.urandom(5))
            cls._count = (cls._count + 1) & 0xFFFFFF
            return struct.pack(">I", int(time.time())) + cls._process[1] + cls._count.to_bytes(3, "big")

    @property
    def generation_time(self):
        """When it was made, to the second."""
        return _EPOCH + datetime.timedelta(seconds=int.from_bytes(self.binary[:4], "big"))

    def __eq__(self, other):
        return isinstance(other, ObjectId) and self.binary == other.binary

    def __lt__(self, other):
        return self.binary < other.binary

    def __hash__(self):
        return hash(self.binary)

    def __str__(self):
        return self.binary.hex()

    def __repr__(self):
        return f"ObjectId('{self}')"


class Int64(int):
    """An int that is stored in 64 bits, however small it is."""


class Uuid(bytes):
    """Bytes with BSON's subtype for a UUID."""


class Timestamp:
    """A time of the log: seconds, and a number within the second."""

    __slots__ = ("time", "inc")

    def __init__(self, time, inc):
        self.time, self.inc = time, inc

    def __eq__(self, other):
        return isinstance(other, Timestamp) and (self.time, self.inc) == (other.time, other.inc)

    def __hash__(self):
        return hash((self.time, self.inc))

    def __repr__(self):
        return f"Timestamp({self.time}, {self.inc})"


def encode(document):
    """The BSON of a mapping."""
    parts = []
    for name, value in document.items():
        if not isinstance(name, str):
            raise InvalidError(f"names of fields are str, not {type(name).__name__}: {name!r}")
        _append(parts, _cstring(name), value)
    body = b"".join(parts)
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def _cstring(text):
    encoded = text.encode()
    if b"\0" in encoded:
        raise InvalidError(f"a name or pattern has no NUL: {text!r}")
    return encoded + b"\0"


def _append(parts, name, value):
    kind, body = _encoded(value)
    parts += (kind, name, body)


def _encoded(value):
    if value is None:
        return b"\x0a", b""
    if isinstance(value, bool):
        return b"\x08", b"\1" if value else b"\0"
    if isinstance(value, int):
        if -(1 << 31) <= value < 1 << 31 and not isinstance(value, Int64):
            return b"\x10", struct.pack("<i", value)
        if -(1 << 63) <= value < 1 << 63:
            return b"\x12", struct.pack("<q", value)
        raise InvalidError(f"an int of a document has at most 64 bits: {value}")
    if isinstance(value, float):
        return b"\x01", struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\x02", struct.pack("<i", len(text) + 1) + text + b"\0"
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        return b"\x05", struct.pack("<iB", len(data), 4 if isinstance(value, Uuid) else 0) + data
    if isinstance(value, ObjectId):
        return b"\x07", value.binary
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return b"\x09", struct.pack("<q", (value - _EPOCH) // datetime.timedelta(milliseconds=1))
    if isinstance(value, Timestamp):
        return b"\x11", struct.pack("<II", value.inc, value.time)
    if isinstance(value, re.Pattern):
        flags = "".join(letter for letter, flag in _FLAGS.items() if value.flags & flag)
        return b"\x0b", _cstring(value.pattern) + _cstring(flags)
    if isinstance(value, decimal.Decimal):
        return b"\x13", _decimal_bytes(value)
    if hasattr(value, "items"):
        return b"\x03", encode(value)
    if isinstance(value, (list, tuple)):
        return b"\x04", encode({str(at): item for at, item in enumerate(value)})
    raise InvalidError(f"a document cannot hold a {type(value).__name__}: {value!r}")


def _decimal_bytes(value):
    # The format decimal128 of IEEE 754-2008, with the integer significand.
    sign, digits, exponent = _DECIMAL.create_decimal(value).as_tuple()
    if exponent in ("n", "N"):
        high, significand = 0x7C << 56, 0
    elif exponent == "F":
        high, significand = 0x78 << 56, 0
    else:
        significand = int("".join(map(str, digits)) or "0")
        high = (exponent + 6176) << 49
    number = (sign << 127) | (high << 64) | significand
    return number.to_bytes(16, "little")


def _decimal(data):
    number = int.from_bytes(data, "little")
    sign, kind = number >> 127, (number >> 122) & 31
    if kind == 31:
        return decimal.Decimal("NaN")
    if kind == 30:
        return decimal.Decimal("-Infinity" if sign else "Infinity")
    if kind >> 3 == 3:  # A significand above 34 digits, which counts as 0.
        exponent, significand = (number >> 111) & 0x3FFF, 0
    else:
        exponent, significand = (number >> 113) & 0x3FFF, number & ((1 << 113) - 1)
    if significand >= 10**34:
        significand = 0
    return decimal.Decimal((sign, tuple(map(int, str(significand))), exponent - 6176))


def decode(data):
    """The dict of a BSON document."""
    document, end = _document(data, 0, dict)
    if end != len(data):
        raise InvalidError("there are bytes behind the document")
    return document


def _document(data, at, kind):
    end = at + struct.unpack_from("<i", data, at)[0]
    at += 4
    names, values = [], []
    while data[at]:
        type_ = data[at]
        stop = data.index(0, at + 1)
        names.append(data[at + 1 : stop].decode())
        value, at = _value(data, stop + 1, type_)
        values.append(value)
    return (values if kind is list else dict(zip(names, values))), end


def _value(data, at, type_):
    if type_ == 0x01:
        return struct.unpack_from("<d", data, at)[0], at + 8
    if type_ in (0x02, 0x0D, 0x0E):
        length = struct.unpack_from("<i", data, at)[0]
        return data[at + 4 : at + 3 + length].decode(), at + 4 + length
    if type_ == 0x03:
        return _document(data, at, dict)
    if type_ == 0x04:
        return _document(data, at, list)
    if type_ == 0x05:
        length = struct.unpack_from("<i", data, at)[0]
        return bytes(data[at + 5 : at + 5 + length]), at + 5 + length
    if type_ == 0x07:
        return ObjectId(bytes(data[at : at + 12])), at + 12
    if type_ == 0x08:
        return data[at] == 1, at + 1
    if type_ == 0x09:
        millis = struct.unpack_from("<q", data, at)[0]
        return _EPOCH + datetime.timedelta(milliseconds=millis), at + 8
    if type_ in (0x06, 0x0A):
        return None, at
    if type_ == 0x0B:
        middle = data.index(0, at)
        end = data.index(0, middle + 1)
        flags = 0
        for letter in data[middle + 1 : end].decode():
            flags |= _FLAGS.get(letter, 0)
        return re.compile(data[at:middle].decode(), flags), end + 1
    if type_ == 0x10:
        return struct.unpack_from("<i", data, at)[0], at + 4
    if type_ == 0x11:
        inc, seconds = struct.unpack_from("<II", data, at)
        return Timestamp(seconds, inc), at + 8
    if type_ == 0x12:
        return struct.unpack_from("<q", data, at)[0], at + 8
    if type_ == 0x13:
        return _decimal(data[at : at + 16]), at + 16
    raise InvalidError(f"the document has a value of BSON's type {type_:#04x}: install pymongo to read it")
