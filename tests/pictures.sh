#!/bin/sh
# Pictures of what a person sees: the landing page and the terminal views, into target/pictures; the two of
# the README, and the dashboards where PREVIEW names a program that draws them, into docs/pictures.
# Needs chromium; it draws the terminal's colours through aha, which it fetches.
# With arguments only terminal views whose names begin with one of them: tests/pictures.sh plan preflight.
set -eu
cd "$(dirname "$0")/.."
for program in chromium script curl; do
    command -v "$program" >/dev/null 2>&1 || {
        echo "pictures: $program is missing (Debian: apt-get install chromium bsdutils curl)" >&2
        exit 1
    }
done
tests/tools.sh aha aha
cargo build --release
binary=$PWD/target/release/gb10-exporter
work=$(mktemp -d)
trap 'kill $server $replayed 2>/dev/null || true; rm -rf "$work"' EXIT
pictures=$PWD/target/pictures
only=$*
server=
replayed=
mkdir -p docs/pictures "$pictures"

# shot NAME URL WIDTH HEIGHT
shot() {
    chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --hide-scrollbars --user-data-dir="$work/profile" \
        --window-size="$3,$4" --screenshot="$pictures/$1.png" "$2" >"$work/chromium.log" 2>&1 || {
        cat "$work/chromium.log" >&2
        exit 1
    }
}

# wanted NAME: whether it is to be drawn.
wanted() {
    [ -n "$only" ] || return 0
    for begin in $only; do
        case $1 in "$begin"*) return 0 ;; esac
    done
    return 1
}

# terminal NAME HEIGHT ARGUMENTS...: the view as a terminal shows it.
terminal() {
    wanted "$1" || return 0
    name=$1
    height=$2
    shift 2
    script -qec "stty cols 130; $binary $*" /dev/null </dev/null | tr -d '\r' >"$work/$name.ansi"
    {
        echo '<!DOCTYPE html><meta charset="utf-8"><style>body{background:#1c1c1c;color:#d0d0d0;margin:16px}pre{font:14px/1.35 "DejaVu Sans Mono",monospace}</style><pre>'
        target/tools/bin/aha --no-header <"$work/$name.ansi"
        echo '</pre>'
    } >"$work/$name.html"
    shot "$name" "file://$work/$name.html" 1160 "$height"
}

# address LOG: where a program listens, by what it logs.
address() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        found=$(sed -n 's/.*listening on \(http:.*\)metrics.*/\1/p' "$1" 2>/dev/null || true)
        [ -z "$found" ] || break
        sleep 0.2
    done
    echo "$found"
}

# asked NAME HEIGHT SCENARIO SPEED ARGUMENTS...: asks an exporter that replays a scenario, nine seconds in.
asked() {
    wanted "$1" || return 0
    "$binary" replay "tests/scenarios/$3" --serve --speed "$4" --web.listen-address 127.0.0.1:0 2>"$work/replay.log" &
    replayed=$!
    replay_url=$(address "$work/replay.log")
    sleep 9
    name=$1
    height=$2
    shift 4
    terminal "$name" "$height" "$@" --url "$replay_url"
    kill "$replayed"
    replayed=
}

idle=tests/captures/gb10-580.126.09-idle.txt
# A name and "LoRA, 4k" is all that most people say.
terminal plan-name 1660 plan --model llama-3.1-8b --method lora --seq 4k --capture "$idle"
terminal plan-too-large 1720 plan --model llama-3.1-70b --method lora --batch 4 --seq 4k --capture "$idle"
terminal plan-tight 1560 plan --model gpt-oss-120b --method inference --dtype mxfp4 --engine vllm --utilization 0.8 --capture "$idle"
terminal plan-beside-server 1780 plan --model qwen3-8b --method full --capture tests/captures/spark-fe-llm-server.txt
terminal preflight-ready 520 preflight --need 48GiB --capture "$idle"
terminal preflight-blocked 640 preflight --need 48GiB --capture tests/captures/spark-fe-llm-server.txt
asked preflight-ready-watched 560 idle-day.txt 60 preflight --model llama-3.1-8b --seq 4k
asked preflight-blocked-watched 640 engine-left-behind.txt 40 preflight --need 48GiB
terminal flush-dry-run 160 flush --dry-run --compact
[ -z "$only" ] || { ls -l "$pictures"; exit 0; }

"$binary" --capture tests/captures/spark-fe-llm-server.txt --web.listen-address 127.0.0.1:0 2>"$work/log" &
server=$!
url=$(address "$work/log")
sleep 3
shot page "$url" 1000 1250
terminal status 930 status --capture tests/captures/spark-fe-llm-server.txt
terminal status-page-pools 880 status --capture tests/captures/gb10-590-page-pools.txt
terminal status-container 900 status --capture tests/captures/container-no-psi-no-sys.txt
terminal status-here 520 status
terminal status-fighting 1250 replay tests/scenarios/two-fight.txt --at 12m
terminal status-orphan 1150 replay tests/scenarios/engine-left-behind.txt --at 5m
terminal status-release 1100 replay tests/scenarios/stop-is-not-release.txt --at 150s
terminal status-fourth 1100 replay tests/scenarios/fourth-container.txt --at 180s
terminal status-no-memory 1250 replay tests/scenarios/starts-and-no-memory.txt --at 470s
terminal status-thermal 1000 replay tests/scenarios/heat-costs-clock.txt --at 140m
# A run that slows down beside its samples: the curves as a picture and in a terminal.
awk 'BEGIN { t = 1764000000; n = 0; print "{\"step\": 0, \"time\": " t "}";
    while (t < 1764009000) { t += (t < 1764007200) ? 4 : 5; print "{\"step\": " ++n ", \"time\": " t "}" } }' >"$work/train.jsonl"
{
    echo 'timestamp,temperature.gpu,power.draw,clocks.sm,utilization.gpu'
    awk 'BEGIN { for (s = 0; s < 9000; s += 30) { late = s >= 7200
        printf "%d, %.0f, %.2f W, %d MHz, 96 %%\n", 1764000000 + s, late ? 87 : 79 + s / 1800, 88 + (s % 7) / 5, (late ? 1800 : 2250) + s % 13 } }'
} >"$work/thermal.log"
"$binary" correlate --zone UTC --log "$work/train.jsonl" --samples "$work/thermal.log" --svg "$work/run.svg" >"$work/run.txt" || true
{ echo '<!DOCTYPE html><meta charset="utf-8"><style>body{background:#1c1c1c;color:#d0d0d0;margin:16px}pre{font:14px/1.35 "DejaVu Sans Mono",monospace}</style><pre>'
    sed 's/&/\&amp;/g; s/</\&lt;/g' "$work/run.txt"; echo '</pre>'; } >"$work/correlate.html"
shot correlate "file://$work/correlate.html" 1160 1000
shot correlate-svg "file://$work/run.svg" 1000 1100
cp "$pictures/page.png" "$pictures/status.png" docs/pictures/
ls -l "$pictures"
tests/dashboards_draw.sh "$binary"
