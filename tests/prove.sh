#!/bin/sh
# Slow proofs. Their figures go into docs/PROOFS.md with date and commit.
#
# PROVE_SECONDS sets the length of the soak (default 600).
set -eu
cd "$(dirname "$0")/.."
seconds=${PROVE_SECONDS:-600}
commit=$(git rev-parse --short HEAD)
cargo build --release
cargo build --release --examples
if ! command -v cargo-deny >/dev/null 2>&1 && [ ! -x target/tools/deny/bin/cargo-deny ]; then
    cargo install cargo-deny --locked --root target/tools/deny
fi
PATH="$PWD/target/tools/deny/bin:$PATH"
cargo deny check bans licenses sources

command -v systemd-analyze >/dev/null 2>&1 || {
    echo "prove: systemd-analyze is missing (Debian: apt-get install systemd)" >&2
    exit 1
}
# Alerts at true speed: the rules, the example's patience, a scrape every 15 s. It takes a quarter of an hour.
notices=$(cargo test --test unscaled -- --nocapture | sed -n 's/^.*proof: //p')
[ -n "$notices" ] || { echo "prove: no notice came" >&2; exit 1; }

[ "$(id -u)" = 0 ] || {
    echo "prove: a real flush needs root" >&2
    exit 1
}
work=$(mktemp -d)
# Before anything that is measured: a flush slows down what runs beside it.
cargo test --release --test flush_live -- --nocapture >"$work/flush.log" 2>&1 || {
    cat "$work/flush.log" >&2
    exit 1
}
# The first line of a test stands behind its name.
flushed=$(sed -n 's/^.*proof: //p' "$work/flush.log")
[ -n "$flushed" ] || { echo "prove: the flush told no figure" >&2; exit 1; }
trap 'kill $server $hanging 2>/dev/null || true; rm -rf "$work"' EXIT
hanging=

# A driver of which one call blocks for a minute: everything else goes on, and it is back when the call returns.
cp tests/captures/spark-fe-llm-server.txt "$work/gpu.txt"
FAKE_GPU_CAPTURE="$work/gpu.txt" target/release/gb10-exporter --web.listen-address 127.0.0.1:0 \
    --path.nvml "$PWD/target/release/examples/libfake_nvml.so" 2>"$work/hanging.log" &
hanging=$!
sleep 3
hanging_url=$(sed -n 's/.*listening on \(http:.*metrics\).*/\1/p' "$work/hanging.log")
gpu_state() { curl -s "$hanging_url" | sed -n 's/^gb10_source_state{source="gpu",state="\([a-z_]*\)"} 1$/\1/p'; }
fast_ticks() { curl -s "$hanging_url" | awk '$1 == "gb10_lane_ticks_total{lane=\"fast\"}" { print $2 }'; }
[ "$(gpu_state)" = ok ] || { echo "prove: the stand-in for NVML is not read" >&2; exit 1; }
sed 's/^0.temperature = .*/0.temperature = ~60000 64/' "$work/gpu.txt" >"$work/gpu.new"
hang_began=$(date +%s.%N)
hang_fast=$(fast_ticks)
mv "$work/gpu.new" "$work/gpu.txt"
until [ "$(gpu_state)" = hung ]; do sleep 0.1; done
hang_seen=$(echo "$(date +%s.%N) $hang_began" | awk '{ printf "%.1f", $1 - $2 }')
cp tests/captures/spark-fe-llm-server.txt "$work/gpu.new" && mv "$work/gpu.new" "$work/gpu.txt"
slowest=0
until [ "$(gpu_state)" = ok ]; do
    slowest=$(echo "$slowest $(curl -s -o /dev/null -w '%{time_total}' "$hanging_url")" | awk '{ print ($2 > $1) ? $2 : $1 }')
    sleep 1
done
hang_took=$(echo "$(date +%s.%N) $hang_began" | awk '{ printf "%.1f", $1 - $2 }')
hang_ticks=$(($(fast_ticks) - hang_fast))
kill $hanging
target/release/gb10-exporter --web.listen-address 127.0.0.1:0 --state.directory "$work/state" 2>"$work/log" &
server=$!
sed "s|/usr/local/bin/gb10-exporter|$PWD/target/release/gb10-exporter|" deploy/systemd/gb10-exporter.service \
    >"$work/gb10-exporter.service"
if systemd-analyze verify "$work/gb10-exporter.service" 2>&1 | grep gb10-exporter; then
    echo "prove: systemd does not take the unit" >&2
    exit 1
fi
exposure=$(systemd-analyze security --offline=true --threshold=20 "$work/gb10-exporter.service" |
    sed -n 's/.*Overall exposure level[^:]*: \([0-9.]*\).*/\1/p')
sleep 5
url=$(sed -n 's/.*listening on \(http:.*metrics\).*/\1/p' "$work/log")
# How long a connection lives that sends WHAT and then nothing.
lives() {
    port=$(echo "$url" | sed 's/.*:\([0-9]*\)\/.*/\1/')
    from=$(date +%s)
    timeout 120 bash -c 'exec 3<>/dev/tcp/127.0.0.1/'"$port"'; printf "$1" >&3; cat <&3 >/dev/null' - "$1"
    echo $(($(date +%s) - from))
}
half=$(lives 'GET /metrics HTTP/1.1\r\nHost: x\r\n')
idle=$(lives 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n')
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
    echo "| systemd-analyze verify, and its security score for the unit | pass, $exposure |"
    echo "| a connection with half a request is closed after | $half s |"
    echo "| a connection that rests after an answer is closed after | $idle s |"
    echo "| a call into the GPU's driver that blocks for 60 s is told after | $hang_seen s |"
    echo "| ... the GPU is read again after | $hang_took s |"
    echo "| ... rounds of the fast lane meanwhile, slowest scrape | $hang_ticks, $slowest s |"
    echo "$notices"
    echo "$flushed"
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
