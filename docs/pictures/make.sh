#!/bin/sh
# Makes the pictures of docs/TOUR.md anew from a demo of its own: starts `throughline demo`, lets it run for WARM_UP (300)
# seconds, and has the prefix's Chromium take each page. Without an argument into this folder; with a folder there, each
# page 1280 and 1920 pixels wide, light and dark, to be looked at. With EMULATE=1 README's picture, of `throughline demo --emulate`.
set -eu
cd "$(dirname "$0")/../.."
throughline=${THROUGHLINE:-target/release/throughline}
web=crates/gateway/web
[ -d "$web/node_modules/playwright-core" ] || {
    echo "playwright-core is missing: \`make pages\` puts it into $web/node_modules" >&2
    exit 69
}
browser=$(cargo xtask prefix browser | tail -n 1)/bin/chromium-headless-shell
folder=$(mktemp -d) demo=
# The database's user must reach its folder.
chmod 755 "$folder"
# shellcheck disable=SC2317 # the trap calls it
finish() {
    if [ -n "$demo" ]; then
        kill -INT "$demo" 2>/dev/null || true
        wait "$demo" || true
    fi
    rm -rf "$folder"
}
trap finish EXIT INT TERM
out=${1:-} emulated=${EMULATE:+emulated}
if [ -n "$emulated" ]; then set -- --emulate; else set -- --size "${SIZE:-small}"; fi
"$throughline" demo --state-dir "$folder" "$@" >"$folder/out" 2>&1 &
demo=$!
for _ in $(seq 1200); do
    site=$(sed -n 's|^  \(http://[^ ]*\)/ .*in a browser.*|\1|p' "$folder/out" | tail -n 1)
    [ -z "$site" ] || break
    kill -0 "$demo" 2>/dev/null || {
        tail -n 5 "$folder/out" >&2
        exit 1
    }
    sleep 0.2
done
sleep "${WARM_UP:-300}"
node docs/pictures/make.mjs "$site" "$browser" "$web/node_modules/playwright-core/index.mjs" "$out" "$emulated"
