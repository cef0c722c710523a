#!/bin/sh
# How long the pages take in a browser while rows come in: the map of 1,428 hosts and of 8,008 from opening to painted,
# panning and zooming it, and the map and the page of 1,000 live jobs from request to painted, at 10 requests a second of
# others. Seeds a database of its own for each size. The browser is the prefix's headless Chromium, which draws in
# software. Prints each figure against its goal; ends with status 2 where one is missed. PARTS names other sizes.
set -eu
cd "$(dirname "$0")/.."
self=$PWD/benches/pages.sh web=crates/gateway/web
[ -d "$web/node_modules/playwright-core" ] || {
    echo "playwright-core is missing: \`make pages\` puts it into $web/node_modules" >&2
    exit 69
}
if [ -z "${HOSTS:-}" ]; then
    status=0
    for part in ${PARTS:-1428 8008}; do
        HOSTS=$part "$self" || status=$?
    done
    exit "$status"
fi
hosts=$HOSTS jobs=${JOBS:-1000}
throughline=${THROUGHLINE:-target/release/throughline}
# A crawler sweeps a large fabric each 5 s; a small one each second is harder than it is in use.
[ "$hosts" -lt 4000 ] || PAUSE=${PAUSE:-5}
browser=$(cargo xtask prefix browser | tail -n 1)/bin/chromium-headless-shell
. benches/live-site.sh
sleep "${WARM_UP:-30}"
HOSTS=$hosts JOBS=$jobs node benches/pages/measure.mjs "http://$query" "$browser" "$web/node_modules/playwright-core/index.mjs"
