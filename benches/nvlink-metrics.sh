#!/bin/sh
# INAM's table of NVLinks, of a node of 8 GPUs with 18 links each, read each second: seconds for its last minute and its last hour, by the
# view and by the function, median of 5, with one hour stored and with 30 days. Days before have a reading each STEP seconds (15), so that
# 1.4 million rows lie in as many chunks as the days have. Each rate is compared with what was counted. Ends with status 2 where a minute
# takes more than 0.2 s, an hour more than 6 s, either more than 1.2 times as long beside 30 days, or a rate is another one.
#   benches/nvlink-metrics.sh
# FROM=target/release DAYS=30 STEP=15
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | sed '$d' && exit 0 ;; esac
from=${FROM:-target/release} days=${DAYS:-30} step=${STEP:-15}
all=$(mktemp -d)
chmod 755 "$all"
finish() {
    "$from/throughline" db stop --state-dir "$all" >/dev/null 2>&1 || true
    rm -rf "$all"
}
trap finish EXIT
trap 'exit 1' INT TERM

"$from/throughline" db init --state-dir "$all" >/dev/null 2>&1
"$from/throughline" db start --state-dir "$all" >/dev/null 2>&1
psql="$("$from/throughline" db status --state-dir "$all" 2>/dev/null | sed -n 's/^psql *//p' | sed 's/throughline_read/throughline_admin/') -q -v ON_ERROR_STOP=1"

# Readings from FROM to UNTIL, both SQL, each so many seconds. GPU g counts g GB/s on link 0 and 10 MB/s more on each further one.
fill() {
    $psql <<SQL
SET timezone = 'UTC';
INSERT INTO internal.nvlink_counters (time, gpu_id, epoch, source, transmit_bytes, receive_bytes, replay_errors, recovery_errors,
                                      crc_errors, up, speed_bytes_per_second)
SELECT t.time, k.id, (SELECT min(valid_from) FROM internal.gpu), 'nvml',
       (SELECT array_agg(t.seconds * (k.id * 1000000000 + l * 10000000) ORDER BY l) FROM generate_series(0, 17) l),
       (SELECT array_agg(t.seconds * (k.id * 100000000 + l * 1000000) ORDER BY l) FROM generate_series(0, 17) l),
       array_fill(0::bigint, ARRAY[18]), array_fill(0::bigint, ARRAY[18]), array_fill(0::bigint, ARRAY[18]),
       array_fill(1::bigint, ARRAY[18]), array_fill(26562000000::bigint, ARRAY[18])
FROM (SELECT time, extract(epoch FROM time)::bigint - 1790000000 AS seconds
      FROM generate_series($1, $2, INTERVAL '$3 seconds') AS s (time)) t
CROSS JOIN internal.gpu_key k;
ANALYZE internal.nvlink_counters;
SQL
}

# The newest second that has readings.
newest="(SELECT max(time) FROM internal.nvlink_counters WHERE time > now() - INTERVAL '2 hours')"

# Median of the seconds that a query takes in 5 runs, the first one left out. What is missing since the last fill is read before.
seconds() {
    fill "$newest + INTERVAL '1 s'" "now()" 1
    { printf '%s\n' '\timing on' '\o /dev/null' && for _ in 1 2 3 4 5 6; do echo "$1;"; done; } | $psql -At |
        sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -5 | sort -n | sed -n '3p' | awk '{ print $1 / 1000 }'
}

measure() {
    view_minute=$(seconds "SELECT * FROM nvlink_metrics WHERE node_name = 'n1' AND added_on > now() - INTERVAL '1 minute'")
    view_hour=$(seconds "SELECT * FROM nvlink_metrics WHERE node_name = 'n1'")
    minute=$(seconds "SELECT * FROM nvlink_metrics_between(now() - INTERVAL '1 minute', now(), 'n1')")
    hour=$(seconds "SELECT * FROM nvlink_metrics_between(now() - INTERVAL '1 hour', now(), 'n1')")
}

$psql <<SQL
INSERT INTO internal.node_key (name) VALUES ('n1');
INSERT INTO internal.gpu_key (node_id, uuid) SELECT 1, 'GPU-' || g FROM generate_series(0, 7) g;
INSERT INTO internal.gpu (gpu_id, uuid, node_id, index, name, pci_bus_id, link_count, source, valid_from)
SELECT id, uuid, 1, id - 1, 'NVIDIA H200', '', 18, 'nvml', now() - INTERVAL '40 days' FROM internal.gpu_key;
INSERT INTO internal.gpu_link (gpu_id, link, active, version, speed_bytes_per_second, remote_type, remote_pci_bus_id, valid_from)
SELECT k.id, l, true, 6, 26562000000, 'switch', '00000000:05:00.0', now() - INTERVAL '40 days'
FROM internal.gpu_key k CROSS JOIN generate_series(0, 17) l;
SQL
fill "date_trunc('second', now()) - INTERVAL '62 minutes'" "now()" 1
measure
echo "one hour stored: last minute $view_minute s (view), $minute s (function); last hour $view_hour s (view), $hour s (function)"
first="$view_minute $minute $view_hour $hour"
fill "date_trunc('hour', now()) - INTERVAL '$days days'" "date_trunc('second', now()) - INTERVAL '70 minutes'" "$step"
measure
chunks=$($psql -At -c "SELECT count(*) FROM timescaledb_information.chunks WHERE hypertable_name = 'nvlink_counters'")
echo "$days days stored ($chunks chunks): last minute $view_minute s (view), $minute s (function); last hour $view_hour s (view), $hour s (function)"
read -r rows wrong <<EOS
$($psql -At -F ' ' -c "SELECT count(*), count(*) FILTER (WHERE abs(data_sent_rate / ((source_id + 1) * 1e9 + link_id * 1e7) - 1) > 1e-9
        OR abs(data_recv_rate / ((source_id + 1) * 1e8 + link_id * 1e6) - 1) > 1e-9 OR data_sent_rate IS NULL OR dest_name <> 'switch')
    FROM nvlink_metrics_between(now() - INTERVAL '30 minutes', now(), 'n1')")
EOS
ids=$($psql -At -c "SELECT count(*) - count(DISTINCT id) FROM nvlink_metrics WHERE added_on > now() - INTERVAL '10 minutes'")
echo "$rows rates of half an hour, $wrong of them other than counted; $ids ids twice"
echo "$first $view_minute $minute $view_hour $hour" | awk -v rows="$rows" -v wrong="$wrong" -v ids="$ids" '{
    for (i = 1; i <= 4; i++) if ($(i + 4) > 1.2 * $i && $(i + 4) - $i > 0.02) missed = 1
    exit !(!missed && $5 <= 0.2 && $6 <= 0.2 && $7 <= 6 && $8 <= 6 && rows > 250000 && wrong == 0 && ids == 0)
}' || { echo "MISSED" && exit 2; }
