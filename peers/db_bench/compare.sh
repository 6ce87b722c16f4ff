#!/bin/sh
# The same work in RocksDB's own db_bench and through our driver, in turns: what does the laboratory cost?
#
# Both open their database with the same options: those that the driver chose, which RocksDB writes to a file. Both draw the numbers of
# keys at random with replacement, make the same keys of 16 bytes and values that compress to half, use one thread, take the time of
# each operation, and merge all into one tree before they read. VIEWS=1 lets the driver read as it does in experiments, from a view that it
# takes every 1024 calls and with an iterator that it keeps, where db_bench makes a new one for each seek.
#
# Usage: peers/db_bench/compare.sh [ROUNDS]
#   NUM=1000000 MEMORY=1GiB DURABILITY=buffered DIRECT_IO=true COMPACT=1 DIR=target/compare peers/db_bench/compare.sh 5
# Needs jq, and both programs: see build.sh.
set -eu
rounds=${1:-3}
num=${NUM:-1000000}
memory=${MEMORY:-1GiB}
durability=${DURABILITY:-buffered}
direct_io=${DIRECT_IO:-true}
here=$(cd "$(dirname "$0")/.." && pwd)
target=$(cargo metadata --manifest-path "$here/Cargo.toml" --format-version 1 --no-deps | jq -r .target_directory)/release
dir=${DIR:-$target/../compare}
value_bytes=128
plain=1
[ "${VIEWS:-0}" = 0 ] || plain=
seek_nexts=8
case $durability in
    buffered) disable_wal=0 ;;
    no-log) disable_wal=1 ;;
    *) echo "db_bench has no durability like $durability: buffered or no-log" >&2; exit 2 ;;
esac
case $memory in
    *GiB) cache_size=$((${memory%GiB} << 30)) ;;
    *MiB) cache_size=$((${memory%MiB} << 20)) ;;
    *) echo "memory in MiB or GiB, as in 512MiB" >&2; exit 2 ;;
esac
# db_bench's `compact` compacts while the clock runs, as ours does; neither is part of the comparison.
settle=compact
[ "${COMPACT:-1}" = 1 ] || settle=waitforcompaction

rm -rf "$dir" && mkdir -p "$dir"
rates=$dir/rates
for round in $(seq "$rounds"); do
    env ${plain:+SPINNEY_ROCKSDB_PLAIN=1} "$target/peers" kv --engines rocksdb --workloads "fillrandom,$settle,readrandom,seekrandom" --settle false --with-replacement \
        --num "$num" --value-bytes $value_bytes --seek-nexts $seek_nexts --memory "$memory" --durability "$durability" \
        --direct-io "$direct_io" --seed "$round" --dir "$dir/lab" --keep --json "$dir/lab-$round.json" >"$dir/lab-$round.txt"
    jq -r '.runs[].steps[] | select(.cost) | "\(.name) lab \(.cost.rate) \(.cost.overhead_us // 0)"' "$dir/lab-$round.json" >>"$rates"
    options=$(find "$dir/lab" -name 'OPTIONS-*' | sort | tail -n 1)
    cp "$options" "$dir/OPTIONS"
    "$target/db_bench" --db="$dir/db_bench" --options_file="$dir/OPTIONS" --cache_size=$cache_size \
        --benchmarks="fillrandom,$settle,readrandom,seekrandom" --num="$num" --key_size=16 --value_size=$value_bytes \
        --compression_ratio=0.5 --seek_nexts=$seek_nexts --disable_wal=$disable_wal --threads=1 --histogram=1 \
        --seed="$round" >"$dir/db_bench-$round.txt" 2>&1
    sed -n 's/^\([a-z]*\) *: *[0-9.]* micros\/op \([0-9]*\) ops\/sec.*/\1 db_bench \2 0/p' "$dir/db_bench-$round.txt" >>"$rates"
    rm -rf "$dir/lab" "$dir/db_bench"
done

awk '
    { count[$1, $2]++; rate[$1, $2, count[$1, $2]] = $3; overhead[$1] = $2 == "lab" ? $4 : overhead[$1] }
    # The middle of the first n of v.
    function median(v, n,    i, j, swap) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] > v[j]; j--) { swap = v[j]; v[j] = v[j - 1]; v[j - 1] = swap }
        return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
    }
    END {
        printf "%-12s %12s %12s %7s %7s %7s %18s\n", "", "db_bench/s", "driver/s", "ratio", "min", "max", "lab itself us/op"
        split("fillrandom readrandom seekrandom", names, " ")
        for (at = 1; at <= 3; at++) {
            name = names[at]; n = count[name, "lab"]; low = 1e9; high = 0
            for (i = 1; i <= n; i++) {
                a[i] = rate[name, "db_bench", i]; b[i] = rate[name, "lab", i]; r[i] = b[i] / a[i]
                if (r[i] < low) low = r[i]
                if (r[i] > high) high = r[i]
            }
            printf "%-12s %12.0f %12.0f %7.2f %7.2f %7.2f %18.3f\n", name, median(a, n), median(b, n), median(r, n), low, high, overhead[name]
        }
    }' "$rates"
