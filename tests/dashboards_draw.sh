#!/bin/sh
# Pictures of the dashboards, drawn from replayed scenarios: below docs/pictures, dark and light. Alerts fire there as
# the committed rules have it.
#
# PREVIEW is a program that draws a dashboard's JSON from a Prometheus:
#   PREVIEW DASHBOARD.json --prom URL --out PICTURE --report REPORT.json --from MS --to MS --width PIXELS
#           --theme dark|light --scrape TIME --var NAME=VALUE
# Usage: dashboards_draw.sh BINARY [WIDTH [DIRECTORY]]
set -eu
cd "$(dirname "$0")/.."
binary=$1
width=${2:-1600}
to=${3:-docs/pictures}
[ -x "${PREVIEW:-}" ] || {
    echo "pictures: the dashboards are not drawn: set PREVIEW to a program that draws a dashboard (tests/dashboards_draw.sh says how it is called)" >&2
    exit 1
}
tools=$PWD/target/tools/bin
work=$(mktemp -d)
server=
live=
trap 'kill $server $live 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p "$to" "$work/reports" "$work/others"
# Times are fixed, so that a picture changes only when what it shows does.
end=1780000000

# fill SCENARIO INSTANCE INTERVAL: a box that was scraped until `end`.
fill() {
    "$binary" replay "tests/scenarios/$1.txt" --emit openmetrics --scrape-interval "$3" >"$work/replay"
    last=$(awk '/^gb10_exporter_build_info/ { last = $NF } END { print last }' "$work/replay")
    awk -v later="$(awk -v e="$end" -v l="$last" 'BEGIN { printf "%d", e - l }')" -v instance="$2" '
        /^# EOF/ { print "# TYPE up gauge"
                   for (n = 1; n <= scrapes; n++) print "up{" added "} 1 " at[n]
                   print; next }
        /^#/ { print; next }
        { time = $NF + later; value = $(NF - 1)
          # When the machine booted is told by the clock of the capture.
          if ($0 ~ /_timestamp_seconds/ && $0 !~ /^gb10_boot_/) value = sprintf("%.3f", value + later)
          series = $0; sub(/ [^ ]+ [^ ]+$/, "", series)
          added = "job=\"gb10\",instance=\"" instance "\""
          if (series ~ /\{/) sub(/\{/, "{" added ",", series); else series = series "{" added "}"
          if ($0 ~ /^gb10_exporter_build_info/) at[++scrapes] = time
          print series " " value " " time }' "$work/replay" >"$work/scraped"
    "$tools/promtool" tsdb create-blocks-from openmetrics "$work/scraped" "$work/data" >"$work/promtool.log" || {
        cat "$work/promtool.log" >&2
        exit 1
    }
}

# draw BOARD INSTANCE FROM TO NAME [UNTIL [DIRECTORY]]: from and to in seconds before the end, or before UNTIL. A style for a series that is not
# there is no fault, but would be marked in the picture: such styles are left out in a second round.
draw() {
    until=${6:-$end}
    into=${7:-$to}
    for theme in dark light; do
        cp "$work/boards/gb10-$1.json" "$work/board.json"
        for round in 1 2 3 4; do
            "$PREVIEW" "$work/board.json" --prom "http://$address" --out "$into/$5-$theme.png" --report "$work/report.json" \
                --from "$(((until - $3) * 1000))" --to "$(((until - $4) * 1000))" --width "$width" --theme "$theme" \
                --scrape 15s --var "instance=$2" >"$work/drawn" 2>&1 || [ $? -eq 1 ] || { cat "$work/drawn" >&2; exit 1; }
            # On a busy machine the picture may be taken before tables are there: then once more.
            [ $round -eq 1 ] || awk '/^(ok|FAIL)/ { table = $3 == "table" } table && /body is empty on screen/ { blank = 1 } END { exit !blank }' "$work/drawn" || break
            [ $round -gt 1 ] || python3 - "$work/board.json" "$work/report.json" <<'END'
import json, sys
board, report = (json.load(open(path)) for path in sys.argv[1:])
unused = {}
for panel in report["panels"]:
    for error in panel["errors"]:
        if error.endswith("matches no field"):
            unused.setdefault(panel["id"], []).append(error)
for panel in board["panels"]:
    def used(style):
        matcher = style["matcher"]
        text = "override %s %s matches" % (matcher["id"], json.dumps(matcher["options"]))
        return not any(error.startswith(text) for error in unused.get(panel["id"], []))
    if "fieldConfig" in panel:
        panel["fieldConfig"]["overrides"] = [s for s in panel["fieldConfig"]["overrides"] if used(s)]
json.dump(board, open(sys.argv[1], "w"))
END
        done
        cp "$work/report.json" "$work/reports/$1.$5-$theme.json"
        # Panels without data say why; anything else is a fault.
        if grep '^ \|^FAIL [^#]' "$work/drawn" | grep -v 'no data$\|variable gpu: the variable has no values\|no finite sample\|body is empty on screen\|canvas is blank'; then
            echo "pictures: $5-$theme: see above" >&2
            exit 1
        fi
        echo "$into/$5-$theme.png: $(grep -c '^ok' "$work/drawn") panels painted, $(grep -c '^FAIL #' "$work/drawn") with nothing to show or a query without an answer"
    done
}

# serve: a Prometheus of what was filled in until now, at $address. What is filled in has no marks of where a series ends,
# so it ends when a scrape is missed.
serve() {
    [ -z "$server" ] || { kill "$server"; wait "$server" || true; }
    : >"$work/prometheus.log"
    "$tools/prometheus" --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/data" --query.lookback-delta=20s \
        --storage.tsdb.retention.time=100y --web.listen-address=127.0.0.1:0 2>"$work/prometheus.log" &
    server=$!
    address=
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        address=$(sed -n 's/.*Listening on.*address=\(127[0-9.:]*\).*/\1/p' "$work/prometheus.log")
        [ -n "$address" ] && grep -q 'ready to receive' "$work/prometheus.log" && return
        sleep 0.5
    done
    cat "$work/prometheus.log" >&2
    exit 1
}

# alerts: what the committed rules make of the boxes, their recording rules first, which alerts go by.
alerts() {
    serve
    first=$((end - 4 * 3600))
    for rules in alerts/gb10.rules.yml alerts/gb10-fleet.rules.yml; do
        "$tools/promtool" tsdb create-blocks-from rules --url "http://$address" --start "$first" --end "$end" \
            --eval-interval 15s --output-dir "$work/data" "$rules" >"$work/promtool.log" 2>&1 || { cat "$work/promtool.log" >&2; exit 1; }
    done
    serve
    python3 tests/alerts_fired.py "http://$address" "$first" "$end" 15 >"$work/alerts"
    grep -q '^ALERTS.*alertstate="firing"' "$work/alerts" || { echo "pictures: no alert fires" >&2; exit 1; }
    "$tools/promtool" tsdb create-blocks-from openmetrics "$work/alerts" "$work/data" >"$work/promtool.log" || {
        cat "$work/promtool.log" >&2
        exit 1
    }
    serve
    echo "pictures: firing at some time: $(sed -n 's/.*alertname="GB10\([A-Za-z]*\)",alertstate="firing".*/\1/p' "$work/alerts" | sort -u | tr '\n' ' ')"
}

"$binary" dashboards --dir "$work/boards" >"$work/log"
fill full-and-healthy spark-1:10058 15s
fill heat-costs-clock spark-2:10058 15s
fill two-fight spark-3:10058 5s
fill fourth-container spark-4:10058 1s
fill training-slows-down spark-5:10058 15s
fill power-not-delivered spark-6:10058 15s
fill module-at-its-limit spark-7:10058 5s
fill power-unreadable spark-8:10058 15s
# What only a live exporter has: what its reads take, and what it costs.
"$binary" --web.listen-address 127.0.0.1:0 2>"$work/live.log" &
live=$!
sleep 3
here=$(sed -n 's/.*listening on http:..\(127[0-9.:]*\).*/\1/p' "$work/live.log")
printf '%s\n' 'global: {scrape_interval: 5s, evaluation_interval: 15s}' "rule_files: ['$PWD/alerts/gb10.rules.yml', '$PWD/alerts/gb10-fleet.rules.yml']" \
    "scrape_configs: [{job_name: gb10, static_configs: [{targets: ['$here']}]}]" >"$work/prometheus.yml"
alerts
began=$(date +%s)
draw box spark-1:10058 3600 0 box-full-and-healthy
draw box spark-2:10058 7200 1800 box-throttle
draw box spark-3:10058 1200 300 box-contention
draw workloads spark-3:10058 1200 300 workloads-contention
draw incident spark-4:10058 240 0 incident-exhaustion
draw incident spark-6:10058 2400 1500 incident-power
draw workloads spark-5:10058 4800 0 workloads-training
draw fleet .+ 3600 300 fleet

# Every panel is painted in some picture. These are for that alone and are not kept.
draw box spark-8:10058 1200 0 box-unreadable "" "$work/others"
draw box spark-6:10058 2400 0 box-power "" "$work/others"
draw box spark-7:10058 900 0 box-module "" "$work/others"
draw workloads spark-4:10058 240 0 workloads-fourth "" "$work/others"
while [ "$(($(date +%s) - began))" -lt 60 ]; do sleep 1; done
draw box "$here" 60 0 box-live "$(date +%s)" "$work/others"
python3 - "$work/boards" "$work/reports" <<'END'
import collections, glob, json, os, sys
painted = collections.defaultdict(set)
for path in glob.glob(sys.argv[2] + "/*.json"):
    board = os.path.basename(path).split(".")[0]
    painted[board].update(p["id"] for p in json.load(open(path))["panels"] if not p["errors"])
missing = [
    f"{name}: {panel['title']}"
    for name in ("box", "workloads", "incident", "fleet")
    for panel in json.load(open(f"{sys.argv[1]}/gb10-{name}.json"))["panels"]
    if panel["type"] != "row" and panel["id"] not in painted[name]
]
print(f"pictures: {sum(map(len, painted.values()))} panels are painted, never: {', '.join(missing) or 'none'}")
END
