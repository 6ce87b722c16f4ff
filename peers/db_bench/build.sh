#!/bin/sh
# Builds RocksDB's own db_bench from the sources that crate `librocksdb-sys` carries, linked with the very library that the driver
# is linked with, and puts it beside the `peers` binary. Needs a C++ compiler and gflags (Debian: apt-get install g++ libgflags-dev).
#
# Usage: peers/db_bench/build.sh
set -eu
cd "$(dirname "$0")/.."

# Builds the driver if need be. Cargo says where the packages are and where each put what it compiled.
flags="--no-default-features --features rocksdb"
messages=$(cargo build --release $flags --message-format=json)
metadata=$(cargo metadata --format-version 1 $flags)
out_of() {
    printf '%s\n' "$messages" | grep '"reason":"build-script-executed"' | grep "#$1@" |
        sed 's/.*"out_dir":"\([^"]*\)".*/\1/' | tail -n 1
}
field() {
    printf '%s\n' "$metadata" | grep -o "\"$1\":\"[^\"]*$2\"" | head -n 1 | sed 's/^[^:]*:"//; s/"$//'
}
source_of() {
    dirname "$(field manifest_path "\/$1-[^\"\/]*\/Cargo.toml")"
}
source=$(source_of librocksdb-sys)/rocksdb
target=$(field target_directory '[^"]*')
# A library that was compiled before, if the driver was built with one.
rocksdb=${ROCKSDB_LIB_DIR:-$(out_of librocksdb-sys)}
jemalloc=$(out_of tikv-jemalloc-sys)
zstd=$(out_of zstd-sys)
lz4=$(out_of lz4-sys)

# The flags and macros of librocksdb-sys's build.rs: classes must have the same layout on both sides.
define="-DNDEBUG -DLZ4=1 -DZSTD=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DOS_LINUX -DROCKSDB_PLATFORM_POSIX
    -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT -DROCKSDB_FALLOCATE_PRESENT
    -DROCKSDB_RANGESYNC_PRESENT -DROCKSDB_JEMALLOC=1 -DJEMALLOC_NO_DEMANGLE=1"
objects=$target/release/db_bench.objects
mkdir -p "$objects"
for file in tools/db_bench tools/db_bench_tool tools/tool_hooks tools/simulated_hybrid_file_system test_util/testutil; do
    object=$objects/$(basename "$file").o
    # Sources of a package never change, so an object that is newer than the library is right.
    if [ ! "$object" -nt "$rocksdb/librocksdb.a" ]; then
        echo "compiling $file.cc"
        # The crate's library has an answer of its own to this question, which then counts for both programs.
        ${CXX:-c++} -std=c++20 -O3 -march=native -include cstdint $define -DGFLAGS=gflags \
            -DRocksDbIOUringEnable=DbBenchIOUringEnable \
            -I "$source/include" -I "$source" -I "$jemalloc/include" -I "$(source_of zstd-sys)/zstd/lib" -I "$lz4/include" -c "$source/$file.cc" -o "$object"
    fi
done
${CXX:-c++} -o "$target/release/db_bench" "$objects"/*.o "$rocksdb/librocksdb.a" "$zstd/libzstd.a" "$lz4/liblz4.a" \
    "$jemalloc/lib/libjemalloc_pic.a" -lgflags -lpthread -ldl -lm
echo "$target/release/db_bench"
