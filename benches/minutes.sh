#!/bin/sh
# How long upkeep takes for the rows of one minute of PORTS (10000) fabric ports that were read each INTERVAL (5) seconds, with
# 21 counters: half of the time bursts of 23 s at 20 to 94 % of the link with 8 % noise, times that jitter by 2 ms.
# Seeds a database of its own with MINUTES (10) minutes, lets `throughline serve` make them, and prints seconds a minute: what
# upkeep has to do each minute. Then the same for the blocks of these readings, as if their hour had
# passed, and what a sample takes on disk; a block that has MINUTES of its hour costs more a minute than a whole one. Ends
# with status 2 where a minute takes more than GOAL (10) seconds, or its blocks more than PACKING_GOAL (5).
set -eu
cd "$(dirname "$0")/.."
ports=${PORTS:-10000} interval=${INTERVAL:-5} minutes=${MINUTES:-10} goal=${GOAL:-10} packing_goal=${PACKING_GOAL:-5}
throughline=${THROUGHLINE:-target/release/throughline}

. benches/database.sh

# Whole minutes that have passed long enough for upkeep to make them.
begin=$(($(date +%s) / 60 * 60 - 240 - minutes * 60))
echo "seeding $minutes minutes of $ports ports, read each $interval s"
$psql -q -v ON_ERROR_STOP=1 <<SQL
INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
INSERT INTO internal.ib_node_key (fabric_id, guid) SELECT 1, '0x' || lpad(to_hex(g), 16, '0') FROM generate_series(1, $ports) g;
INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT id, 1 FROM internal.ib_node_key ORDER BY id;
SELECT setseed(0.3) \g /dev/null
INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, transmit_packets,
    receive_packets, unicast_transmit_packets, unicast_receive_packets, transmit_wait, transmit_wait_tick_bytes,
    rate_bytes_per_second, symbol_error, link_error_recovery, link_downed, receive_errors, receive_remote_physical_errors,
    receive_switch_relay_errors, transmit_discards, transmit_constraint_errors, receive_constraint_errors,
    local_link_integrity_errors, excessive_buffer_overrun_errors, vl15_dropped)
SELECT time, id, to_timestamp($begin), 'mad', sum(sent) OVER w, sum(received) OVER w, sum(packets) OVER w,
    sum(packets_in) OVER w, sum(packets) OVER w, sum(packets_in) OVER w, sum(wait) OVER w, 8, 25000000000,
    0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0
FROM (SELECT *, (sent / 2048 * (0.98 + 0.04 * random()))::bigint + 1 AS packets,
          (received / 2048 * (0.98 + 0.04 * random()))::bigint + 1 AS packets_in,
          CASE WHEN is_on THEN (sent * random() / 80)::bigint ELSE 0 END AS wait
      FROM (SELECT *, CASE WHEN is_on THEN (25e9 * $interval * level * (0.92 + 0.16 * random()))::bigint
                      ELSE (2000 * random())::bigint END AS sent,
                CASE WHEN is_on THEN (20e9 * $interval * level * (0.92 + 0.16 * random()))::bigint
                     ELSE (2000 * random())::bigint END AS received
            FROM (SELECT k.id, t, to_timestamp($begin + t * $interval + 0.004 * random()) AS time,
                      abs(hashint4(k.id * 100003 + t * $interval / 23)) % 2 = 0 AS is_on,
                      (20 + abs(hashint4(k.id * 7919 + t * $interval / 23)) % 75) / 100.0 AS level
                  FROM generate_series(0, $minutes * 60 / $interval + 75 / $interval) t, internal.ib_port_key k) a) b) c
WINDOW w AS (PARTITION BY id ORDER BY t);
ANALYZE internal.ib_port_counters, internal.ib_port_key, internal.ib_node_key;
UPDATE internal.minute_state SET made_until = to_timestamp($begin), noticed_until = to_timestamp($begin);
SQL
# Runs upkeep until it has logged this; from one round to the next without work it waits a minute.
upkeep_until() {
    THROUGHLINE__QUERY__ENABLED=false THROUGHLINE__COLLECT__ENABLED=false \
        "$throughline" --log-level info,throughline_gateway=debug serve --state-dir "$folder/state" \
        >"$folder/serve.out" 2>"$folder/serve.log" &
    upkeep=$!
    started="$started $upkeep"
    for _ in $(seq 3000); do
        ! grep -q "$1" "$folder/serve.log" || break
        sleep 0.1
    done
    kill "$upkeep"
    wait "$upkeep" || true
}
upkeep_until 'rows of minutes'
line=$(sed -n 's|.*rows of minutes||p' "$folder/serve.log" | head -n 1)
rows=$($psql -At -c 'SELECT count(*) FROM internal.ib_port_minutes WHERE seconds = 60')
echo "$line, $rows whole rows of a port and minute"
word() { echo "$line" | tr ' ' '\n' | sed -n "s/^$1=//p"; }
status=0
awk -v made="$(word minutes)" -v seconds="$(word seconds)" -v goal="$goal" -v rows="$rows" \
    -v expected="$((ports * minutes))" -v ports="$ports" 'BEGIN {
    if (rows < expected) { printf "of %d rows %d are whole\n", expected, rows; exit 1 }
    each = seconds / made
    verdict = each <= goal ? "met" : "MISSED"
    printf "one minute of %d ports: %.2f s; at most %s: %s\n", ports, each, goal, verdict
    exit each > goal ? 2 : 0
}' || status=$?

$psql -q -c "UPDATE internal.minute_state SET made_until = date_trunc('hour', now()) + INTERVAL '1 hour'"
upkeep_until 'blocks of readings blocks=0 '
disk=$($psql -At -c "SELECT public.hypertable_size('internal.ib_port_blocks')")
sed -n 's/.*blocks of readings//p' "$folder/serve.log" | tr ' ' '\n' | awk -F= -v goal="$packing_goal" -v ports="$ports" \
    -v readings="$((minutes * 60 + 75))" -v disk="$disk" '
    { sum[$1] += $2 }
    END {
        if (!sum["samples"]) { print "nothing was packed"; exit 1 }
        each = sum["seconds"] / readings * 60
        verdict = each <= goal ? "met" : "MISSED"
        printf "packing %d samples, %.2f bytes a sample, on disk with the index %.2f\n", sum["samples"],
            sum["bytes"] / sum["samples"], disk / sum["samples"]
        printf "blocks of one minute of %d ports: %.2f s; at most %s: %s\n", ports, each, goal, verdict
        exit each > goal ? 2 : 0
    }' || status=$?
exit "$status"
