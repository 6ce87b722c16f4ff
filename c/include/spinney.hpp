// Spinney for C++17: handles that free themselves, and errors as exceptions. Over spinney.h, header only.

#ifndef SPINNEY_HPP
#define SPINNEY_HPP

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "spinney.h"

namespace spinney {

/// An error of the library.
class Error : public std::runtime_error {
public:
    explicit Error(spinney_status status) : std::runtime_error(spinney_error_message()), status_(status) {}
    /// What kind of error it is.
    spinney_status status() const noexcept { return status_; }

private:
    spinney_status status_;
};

/// The bytes of a text or string.
inline spinney_bytes bytes(std::string_view text) noexcept {
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

/// Bytes of the library as a text.
inline std::string_view text(spinney_bytes bytes) noexcept {
    return {reinterpret_cast<const char *>(bytes.data), bytes.size};
}

/// Throws unless a call was done; false when there was nothing.
inline bool check(spinney_status status) {
    if (status != SPINNEY_STATUS_OK && status != SPINNEY_STATUS_NONE) {
        throw Error(status);
    }
    return status == SPINNEY_STATUS_OK;
}

namespace detail {
template <auto free> struct Free {
    template <typename T> void operator()(T *handle) const { free(handle); }
};
template <typename T, auto free> using Handle = std::unique_ptr<T, Free<free>>;
} // namespace detail

/// A value that the database gave. It may be moved and outlives the database.
class Value {
public:
    Value() noexcept : value_{} {}
    explicit Value(spinney_value value) noexcept : value_(value) {}
    Value(Value &&other) noexcept : value_(std::exchange(other.value_, spinney_value{})) {}
    Value &operator=(Value &&other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    ~Value() { spinney_value_free(&value_); }
    /// The bytes, valid as long as this is there.
    std::string_view text() const noexcept { return {reinterpret_cast<const char *>(value_.data), value_.size}; }
    /// A copy of them.
    std::string str() const { return std::string(text()); }

private:
    spinney_value value_;
};

/// Options of a database or a table.
class Options {
public:
    Options() : options_(spinney_options_new()) {}
    /// Sets an option by its name.
    Options &set(const char *name, const std::string &value) {
        check(spinney_options_set(options_.get(), name, value.c_str()));
        return *this;
    }
    const spinney_options *get() const noexcept { return options_.get(); }

private:
    detail::Handle<spinney_options, spinney_options_free> options_;
};

/// Options of a table.
class TableOptions {
public:
    TableOptions() : options_(spinney_table_options_new()) {}
    /// Sets an option by its name.
    TableOptions &set(const char *name, const std::string &value) {
        check(spinney_table_options_set(options_.get(), name, value.c_str()));
        return *this;
    }
    const spinney_table_options *get() const noexcept { return options_.get(); }

private:
    detail::Handle<spinney_table_options, spinney_table_options_free> options_;
};

/// A table. Calls that write are a commit each.
class Table {
public:
    explicit Table(spinney_table *table) noexcept : table_(table) {}
    /// The value of a key.
    std::optional<Value> get(std::string_view key) const {
        spinney_value value;
        if (!check(spinney_get(table_.get(), bytes(key), &value))) {
            return std::nullopt;
        }
        return Value(value);
    }
    /// Sets the value of a key.
    void put(std::string_view key, std::string_view value) {
        check(spinney_put(table_.get(), bytes(key), bytes(value)));
    }
    /// Removes a key, if it is there.
    void erase(std::string_view key) { check(spinney_delete(table_.get(), bytes(key))); }
    /// Merges an operand into the value of a key.
    void merge(std::string_view key, std::string_view operand) {
        check(spinney_merge(table_.get(), bytes(key), bytes(operand)));
    }
    /// Merges all of the table into one tree.
    void compact() { check(spinney_compact(table_.get())); }
    const spinney_table *get() const noexcept { return table_.get(); }

private:
    detail::Handle<spinney_table, spinney_table_free> table_;
};

/// Entries in key order. For range-based loops.
class Range {
public:
    explicit Range(spinney_range *range) noexcept : range_(range) {}
    /// An entry; its texts are valid until the next one is asked for.
    using Entry = std::pair<std::string_view, std::string_view>;
    /// The next entry.
    std::optional<Entry> next() {
        spinney_bytes key, value;
        if (!check(spinney_range_next(range_.get(), &key, &value))) {
            return std::nullopt;
        }
        return Entry(text(key), text(value));
    }
    /// Goes on from a key.
    void seek(std::string_view key) { check(spinney_range_seek(range_.get(), bytes(key))); }

    /// What a loop needs.
    class Iterator {
    public:
        explicit Iterator(Range *range) : range_(range) { ++*this; }
        Iterator() noexcept : range_(nullptr) {}
        const Entry &operator*() const noexcept { return *entry_; }
        Iterator &operator++() {
            entry_ = range_->next();
            return *this;
        }
        bool operator!=(const Iterator &) const noexcept { return entry_.has_value(); }

    private:
        Range *range_;
        std::optional<Entry> entry_;
    };
    Iterator begin() { return Iterator(this); }
    Iterator end() noexcept { return Iterator(); }

private:
    detail::Handle<spinney_range, spinney_range_free> range_;
};

namespace detail {
/// The ends of a range; those that are not given are no limit.
struct Ends {
    Ends(std::optional<std::string_view> from, std::optional<std::string_view> to)
        : low(bytes(from.value_or(""))), high(bytes(to.value_or(""))), from(from ? &low : nullptr),
          to(to ? &high : nullptr) {}
    spinney_bytes low, high;
    const spinney_bytes *from, *to;
};
} // namespace detail

/// All tables as they were at one moment.
class Snapshot {
public:
    explicit Snapshot(spinney_snapshot *snapshot) noexcept : snapshot_(snapshot) {}
    /// The value that a key had.
    std::optional<Value> get(const Table &table, std::string_view key) const {
        spinney_value value;
        if (!check(spinney_snapshot_get(snapshot_.get(), table.get(), bytes(key), &value))) {
            return std::nullopt;
        }
        return Value(value);
    }
    /// The entries from `from` on and before `to`.
    Range range(const Table &table, std::optional<std::string_view> from = std::nullopt,
                std::optional<std::string_view> to = std::nullopt,
                spinney_direction direction = SPINNEY_DIRECTION_ASCENDING) const {
        const detail::Ends ends(from, to);
        spinney_range *range = nullptr;
        check(spinney_snapshot_range(snapshot_.get(), table.get(), ends.from, ends.to, direction, &range));
        return Range(range);
    }

private:
    detail::Handle<spinney_snapshot, spinney_snapshot_free> snapshot_;
};

/// Changes that are committed at once and check nothing.
class Batch {
public:
    Batch() : batch_(spinney_batch_new()) {}
    /// Sets the value of a key.
    Batch &put(const Table &table, std::string_view key, std::string_view value) {
        check(spinney_batch_put(batch_.get(), table.get(), bytes(key), bytes(value)));
        return *this;
    }
    /// Removes a key, if it is there.
    Batch &erase(const Table &table, std::string_view key) {
        check(spinney_batch_delete(batch_.get(), table.get(), bytes(key)));
        return *this;
    }
    const spinney_batch *get() const noexcept { return batch_.get(); }

private:
    detail::Handle<spinney_batch, spinney_batch_free> batch_;
};

/// A transaction. It is rolled back when it goes without a commit.
class Transaction {
public:
    explicit Transaction(spinney_txn *txn) noexcept : txn_(txn) {}
    /// The value of a key as the transaction sees it.
    std::optional<Value> get(const Table &table, std::string_view key) const {
        spinney_value value;
        if (!check(spinney_txn_get(txn_.get(), table.get(), bytes(key), &value))) {
            return std::nullopt;
        }
        return Value(value);
    }
    /// The same, and locks the key.
    std::optional<Value> get_for_update(const Table &table, std::string_view key) {
        spinney_value value;
        if (!check(spinney_txn_get_for_update(txn_.get(), table.get(), bytes(key), &value))) {
            return std::nullopt;
        }
        return Value(value);
    }
    /// Sets the value of a key.
    void put(const Table &table, std::string_view key, std::string_view value) {
        check(spinney_txn_put(txn_.get(), table.get(), bytes(key), bytes(value)));
    }
    /// Removes a key, if it is there.
    void erase(const Table &table, std::string_view key) {
        check(spinney_txn_delete(txn_.get(), table.get(), bytes(key)));
    }
    /// Commits and ends it.
    void commit(spinney_durability durability = SPINNEY_DURABILITY_DEFAULT) {
        check(spinney_txn_commit(txn_.release(), durability));
    }

private:
    detail::Handle<spinney_txn, spinney_txn_rollback> txn_;
};

/// An open database.
class Database {
public:
    /// Opens the database in a directory.
    explicit Database(const std::string &path, spinney_open_mode mode = SPINNEY_OPEN_MODE_CREATE,
                      const Options &options = Options()) {
        spinney_database *database = nullptr;
        check(spinney_open(SPINNEY_ABI_VERSION, path.c_str(), mode, options.get(), &database));
        database_.reset(database);
    }
    /// A table, which is made when it is not there.
    Table table(const std::string &name, const TableOptions &options = TableOptions()) {
        spinney_table *table = nullptr;
        check(spinney_table_open_or_create(database_.get(), name.c_str(), options.get(), &table));
        return Table(table);
    }
    /// Begins a transaction.
    Transaction begin(spinney_isolation isolation = SPINNEY_ISOLATION_SNAPSHOT) {
        spinney_txn *txn = nullptr;
        check(spinney_begin(database_.get(), isolation, &txn));
        return Transaction(txn);
    }
    /// Runs `body` with a transaction and commits it; again when another one came between.
    template <typename Body> void transact(Body body) {
        for (int left = 100;; --left) {
            try {
                Transaction txn = begin();
                body(txn);
                return txn.commit();
            } catch (const Error &error) {
                const bool again =
                    error.status() == SPINNEY_STATUS_CONFLICT || error.status() == SPINNEY_STATUS_DEADLOCK;
                if (!again || left == 0) {
                    throw;
                }
            }
        }
    }
    /// A view of all tables as they are now.
    Snapshot snapshot() const {
        spinney_snapshot *snapshot = nullptr;
        check(spinney_snapshot_new(database_.get(), &snapshot));
        return Snapshot(snapshot);
    }
    /// Commits a batch.
    void write(const Batch &batch, spinney_durability durability = SPINNEY_DURABILITY_DEFAULT) {
        check(spinney_write(database_.get(), batch.get(), durability));
    }
    /// Closes it, and tells errors that its end alone would keep to itself.
    void close() { check(spinney_close(database_.release())); }

private:
    detail::Handle<spinney_database, spinney_close> database_;
};

} // namespace spinney

#endif
