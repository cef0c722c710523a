#!/bin/sh
# Records the input of benches/answers.sh anew, as input.jsonl.gz: `throughline demo` of a build on a small fabric, with a recorder
# between its senders and its server, and beside its own jobs one that is traced, one with what the demo's program lacks
# (variety.c), and one that is killed; the first job's detail is requested from its nodes. Two minutes.
#   benches/answers/record.sh BUILD       a checkout with target/demo
# What requests.txt, crafted.jsonl and seeds.txt name of the input has to be changed with it. Needs Open MPI.
set -eu
cd "$(dirname "$0")/../.."
build=${1:?"a checkout with target/demo"}
cargo build --quiet --profile demo -p throughline-bench-answers
folder=$(mktemp -d) demo=''
# shellcheck disable=SC2317 # the trap calls it
finish() {
    if [ -n "$demo" ]; then
        kill "$demo" || true
        wait "$demo" || true
        kill "$(cat "$folder/record.pid")" || true
    fi
    rm -rf "$folder"
}
trap finish EXIT INT TERM
chmod 755 "$folder"
mkdir "$folder/bin" "$folder/state"
cp -a "$build"/target/demo/throughline* "$build/target/demo/lib" "$folder/bin"
mv "$folder/bin/throughline" "$folder/bin/throughline-itself"
run=$folder/state/demo/server/run
# The server listens elsewhere, and the recorder where senders deliver.
cat >"$folder/bin/throughline" <<SCRIPT
#!/bin/sh
(
    while [ ! -S "$run/behind.sock" ]; do sleep 0.1; done
    exec "$PWD/target/demo/bench-answers" record "$build" "$run/collect.sock" "$run/behind.sock" "$folder/input.jsonl"
) >"$folder/record.log" 2>&1 &
echo \$! >"$folder/record.pid"
THROUGHLINE__COLLECT__SOCKET=behind.sock exec "$folder/bin/throughline-itself" "\$@"
SCRIPT
chmod +x "$folder/bin/throughline"
"$folder/bin/throughline-demo" --hosts 8 --state-dir "$folder/state" >"$folder/demo.log" 2>&1 &
demo=$!
lines() { if [ -f "$folder/input.jsonl" ]; then grep -c "$1" "$folder/input.jsonl" || true; else echo 0; fi; }
for _ in $(seq 600); do
    [ "$(lines '"mpi_rank_rows"')" = 0 ] || break
    kill -0 "$demo" 2>/dev/null || { tail -n 20 "$folder"/*.log "$folder"/state/demo/log/serve.log >&2 && exit 1; }
    sleep 0.2
done
mpicc.openmpi -O2 -I crates/mpit-bridge/include -o "$folder/variety" benches/answers/variety.c
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm=isolated OMPI_MCA_pml=ob1
script=$folder/state/demo/run/rank.sh
mpi() { mpirun.openmpi --oversubscribe --bind-to none "$@"; }
sed "s| '[^']*traffic[^']*' | '$folder/variety' |" "$script" >"$folder/variety.sh"
chmod +x "$folder/variety.sh"
sleep 15
THROUGHLINE_TRACE=1 mpi -np 4 "$script" --seconds 2 --pause-ms 200
mpi -np 4 "$folder/variety.sh"
sleep 5
mpi -np 4 "$script" --seconds 100 --pause-ms 100 &
killed=$!
sleep 8
ranks=$(pgrep -P "$killed" -f . | tr '\n' ' ')
# shellcheck disable=SC2086 # a word a rank
kill -9 $ranks
wait "$killed" || true
sleep 20
query=$(sed -n 's/.*listening query=//p' "$folder/state/demo/log/serve.log" | head -n 1)
echo "server at $query"
# Keys in the order of their starts: traffic, traced, variety, killed.
keys=$(grep -o '"key":"[^"]*"' "$folder/input.jsonl" | awk -F'"' '!seen[$4]++ { print $4 }')
job=$(echo "$keys" | sed -n 1p) varied=$(echo "$keys" | sed -n '/./p' | tail -n 2 | head -n 1)
at=$(date +%s%N)
post="/jobs/$(printf %s "$job" | sed 's/:/%3A/; s/@/%40/')/detail?last_seconds=5"
curl -s -X POST "http://$query/api/v1$post"
sleep 25
{
    # A job of a scheduler and of another user, and no folder of this machine.
    sed -e "s|$folder/|/opt/|g" -e "s|\"key\":\"$varied\",\"scheduler\":\"local\"\\([^}]*\\)\"user\":\"root\"|\"account\":\"physics\",\
\"key\":\"$varied\",\"name\":\"solver\",\"native_id\":\"4711\",\"queue\":\"batch\",\"scheduler\":\"slurm\",\"step\":\"0\"\\1\"uid\":1000,\"user\":\"ada\"|g" \
        -e "s|$varied|slurm:4711.0@1000|g" "$folder/input.jsonl"
    echo "{\"at\":$at,\"post\":\"$post\"}"
} | gzip -9 -n >benches/answers/input.jsonl.gz
ls -l benches/answers/input.jsonl.gz
