#!/bin/sh
# Slow proofs. Their figures go into docs/PROOFS.md with date and commit.
#
# PROVE_SECONDS sets the length of the soak (default 600).
set -eu
cd "$(dirname "$0")/.."
seconds=${PROVE_SECONDS:-600}
commit=$(git rev-parse --short HEAD)
cargo build --release
if ! command -v cargo-deny >/dev/null 2>&1 && [ ! -x target/tools/deny/bin/cargo-deny ]; then
    cargo install cargo-deny --locked --root target/tools/deny
fi
PATH="$PWD/target/tools/deny/bin:$PATH"
cargo deny check bans licenses sources

work=$(mktemp -d)
trap 'kill $server 2>/dev/null || true; rm -rf "$work"' EXIT
target/release/gb10-exporter --web.listen-address 127.0.0.1:0 --state.directory "$work/state" 2>"$work/log" &
server=$!
sleep 5
url=$(sed -n 's/.*listening on \(http:.*metrics\).*/\1/p' "$work/log")
rss() { awk '/^VmRSS/ { print $2 }' "/proc/$server/status"; }
ticks() { curl -s "$url" | awk -v s="gb10_lane_ticks_total{lane=\"$1\"}" '$1 == s { print $2 }'; }
cpu() { awk '{ s += $1 } END { printf "%d", s / 1000 }' /proc/"$server"/task/*/schedstat; }
rss0=$(rss)
fast0=$(ticks fast)
slow0=$(ticks slow)
cpu0=$(cpu)
began=$(date +%s.%N)
sleep "$seconds"
took=$(echo "$(date +%s.%N) $began" | awk '{ printf "%.1f", $1 - $2 }')
fast=$(($(ticks fast) - fast0))
slow=$(($(ticks slow) - slow0))
used=$(($(cpu) - cpu0))
missed=$(curl -s "$url" | awk '/^gb10_lane_missed_ticks_total/ { s += $2 } END { print s }')
rss1=$(rss)
threads=$(ls "/proc/$server/task" | wc -l)
files=$(ls "/proc/$server/fd" | wc -l)
{
    echo "# Proofs"
    echo
    echo "Written by \`make prove\` on $(date -u +%F), commit $commit, $(nproc) cores of" \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)."
    echo
    echo "| proof | figure |"
    echo "| --- | --- |"
    echo "| licences, sources and bans of every dependency (cargo deny) | pass |"
    echo "| soak | $took s |"
    echo "| rounds of the fast lane (1 s) | $fast |"
    echo "| rounds of the slow lane (5 s) | $slow |"
    echo "| rounds missed by any lane | $missed |"
    echo "| CPU, all threads | $((used / ${took%.*})) µs per second |"
    echo "| resident memory, begin and end | $rss0 kB, $rss1 kB |"
    echo "| threads, open files at the end | $threads, $files |"
} >"$work/PROOFS.md"
cp "$work/PROOFS.md" docs/PROOFS.md
cat docs/PROOFS.md
