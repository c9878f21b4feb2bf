#!/bin/sh
# Makes dashboard.json, a JSON schema of what types.ts says, from the types that Grafana publishes on the
# npm registry, and units.txt, the units that Grafana knows. Needs node 20 and npm; the tests need neither.
# Run it to go to another version, and read the difference.
set -eu
cd "$(dirname "$0")"
grafana=13.2.3
generator=2.4.0
command -v npm >/dev/null 2>&1 || { echo "make.sh: npm is missing (Debian: apt-get install npm)" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm init -y >npm.log && npm install --ignore-scripts --no-audit --no-fund --legacy-peer-deps \
    "@grafana/schema@$grafana" "@grafana/data@$grafana" "ts-json-schema-generator@$generator" \
    react@18 react-dom@18 >>npm.log 2>&1) || { cat "$work/npm.log" >&2; exit 1; }
# The types are taken by their place, which the package does not export.
sed "s|'@grafana/schema|'./node_modules/@grafana/schema|" types.ts >"$work/types.ts"
cat >"$work/tsconfig.json" <<'END'
{ "compilerOptions": { "strict": true, "skipLibCheck": true, "moduleResolution": "bundler", "target": "es2022", "module": "esnext" }, "files": ["types.ts"] }
END
(cd "$work" && npx ts-json-schema-generator --path types.ts --type Dashboard --tsconfig tsconfig.json \
    --no-type-check --expose none --out schema.json)
# Without prose, in a stable order.
node - "$work/schema.json" >dashboard.json <<'END'
const prose = new Set(['description', '$comment', 'default', 'deprecated']);
const bare = (x, names = false) => Array.isArray(x) ? x.map((y) => bare(y))
  : x && typeof x === 'object' ? Object.fromEntries(Object.keys(x).sort()
    .filter((k) => names || !prose.has(k))
    .map((k) => [k, bare(x[k], !names && ['properties', 'definitions'].includes(k))]))
  : x;
console.log(JSON.stringify(bare(require(process.argv[2])), null, 1));
END
(cd "$work" && node -e "globalThis.navigator = { languages: ['en'] }; const { getValueFormats } = require('@grafana/data');
console.log(getValueFormats().flatMap((c) => c.submenu.map((u) => u.value)).sort().join('\n'))") >units.txt
