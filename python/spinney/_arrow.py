"""Scans as columns: record batches of pyarrow, frames of pandas."""


def batches(walk, rows, names):
    """Record batches with the named columns, of at most `rows` rows each."""
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.binary()) for name in names])

    def array(count, column):
        offsets, data = (pyarrow.py_buffer(part) for part in column)
        return pyarrow.Array.from_buffers(pyarrow.binary(), count, [None, offsets, data])

    while True:
        count, keys, values = walk.columns(rows)
        if not count:
            return
        columns = {"key": keys, "value": values}
        yield pyarrow.RecordBatch.from_arrays([array(count, columns[name]) for name in names], schema=schema)


def frame(walk, names):
    """A pandas frame with the named columns."""
    import pandas

    return pandas.DataFrame(walk, columns=names, dtype=object)
