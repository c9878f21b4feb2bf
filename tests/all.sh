#!/usr/bin/env bash
# Every test, some binaries at a time: most of them wait for timers and programs, and one after the other
# they take twice as long. Arguments go to each of them. What one says is printed when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO=${CARGO:-cargo}
# Two that wait beside one that works.
JOBS=${TEST_JOBS:-$(($(nproc) + 1))}
# These take longest, and begin first. The first two keep processors busy for minutes: they yield to those that measure time.
FIRST="alerts scenarios processes gpu otlp doctor smi record"
BUSY=" alerts scenarios "

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$CARGO" test --no-run 2>&1 | tee "$out/build" >&2
# "Executable tests/alerts.rs (target/debug/deps/alerts-0123)", "Executable unittests src/lib.rs (...)"
sed -n 's/^ *Executable .*(\(.*\))$/\1/p' "$out/build" >"$out/all"
[ -s "$out/all" ] || { echo "tests: none were built" >&2; exit 1; }
for name in $FIRST; do grep "/$name-[0-9a-f]*\$" "$out/all" || true; done >"$out/order"
grep -vxFf "$out/order" "$out/all" >>"$out/order"

one() {
    binary=$1
    shift
    name=$(basename "${binary%-*}")
    log=$OUT/$(basename "$binary").log
    nice=0
    case $BUSY in *" $name "*) nice=10 ;; esac
    code=0
    nice -n "$nice" "$binary" "$@" >"$log" 2>&1 </dev/null || code=$?
    # One at a time, whole.
    (
        flock 9
        echo "     Running $binary"
        cat "$log"
        if [ "$code" -ne 0 ]; then
            again="--test $name"
            [ "$name" = gb10_exporter ] && again="--lib --bins"
            echo "error: $name failed with $code; to run it again: cargo test $again"
            echo "$name" >>"$OUT/failed"
        fi
    ) 9>"$OUT/lock"
}
export -f one
export OUT=$out BUSY
xargs -P "$JOBS" -I{} bash -c 'one "$@"' _ {} "$@" <"$out/order"
"$CARGO" test --doc -- "$@"
if [ -s "$out/failed" ]; then
    echo "tests: failed: $(tr '\n' ' ' <"$out/failed")"
    exit 1
fi
