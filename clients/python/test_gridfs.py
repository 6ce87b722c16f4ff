"""Files in GridFS."""

import os

import gridfs
import pytest


def test_files_are_written_read_renamed_and_removed(db):
    bucket = gridfs.GridFSBucket(db, chunk_size_bytes=1000)
    body = os.urandom(123_457)
    file = bucket.upload_from_stream("report.pdf", body, metadata={"by": "Ann"})
    with bucket.open_download_stream(file) as stream:
        assert stream.metadata == {"by": "Ann"} and stream.length == len(body)
        stream.seek(100_001)
        assert stream.read(2000) == body[100_001:102_001]
    assert db["fs.chunks"].count_documents({}) == 124
    bucket.upload_from_stream("report.pdf", b"second")
    assert bucket.open_download_stream_by_name("report.pdf").read() == b"second"
    assert bucket.open_download_stream_by_name("report.pdf", revision=0).read() == body
    bucket.rename(file, "old.pdf")
    assert [found.filename for found in bucket.find().sort("filename", 1)] == ["old.pdf", "report.pdf"]
    bucket.delete(file)
    with pytest.raises(gridfs.NoFile):
        bucket.open_download_stream(file)
    assert db["fs.chunks"].count_documents({}) == 1
