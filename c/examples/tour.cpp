// A tour of the interface for C++. Usage: tour PATH

#include <iostream>

#include "spinney.hpp"

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: " << argv[0] << " PATH\n";
        return 2;
    }
    spinney::Database db(argv[1], SPINNEY_OPEN_MODE_CREATE, spinney::Options().set("memory_bytes", "16777216"));
    spinney::Table orders = db.table("orders", spinney::TableOptions().set("layout", "btree"));
    orders.put("order 1", "two coffees");
    db.transact([&](spinney::Transaction &txn) {
        txn.put(orders, "order 2", "tea");
        txn.erase(orders, "order 0");
    });
    db.write(spinney::Batch().put(orders, "order 3", "water").erase(orders, "order 9"));
    if (auto found = orders.get("order 2")) {
        std::cout << "order 2: " << found->text() << '\n';
    }
    int count = 0;
    for (const auto &[key, value] : db.snapshot().range(orders, "order 2")) {
        std::cout << key << " = " << value << '\n';
        ++count;
    }
    try {
        spinney::Database second(argv[1]);
        return 1;
    } catch (const spinney::Error &error) {
        if (error.status() != SPINNEY_STATUS_LOCKED || count != 2) {
            return 1;
        }
    }
    db.close();
    std::cout << "done\n";
    return 0;
}
