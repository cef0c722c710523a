#!/bin/sh
# Bytes that a row of each table takes on disk, with its indexes and TOAST: rows as a site sends them (in the order of time,
# each thing once an interval, busy counters, names of usual length) go into a private TimescaleDB with this build's schema. Where that
# is the full edition (programs in THROUGHLINE_PG_BIN), a second figure is of the same rows as columns, and a third how many rows a second
# became columns. The figures are in crates/store/src/tables/list.rs. ROWS of each table (300000), TABLES: only those, for
# instance "coverage mpi_rank_rows". Needs target/release/throughline, or the program in THROUGHLINE.
set -eu
cd "$(dirname "$0")/.."
throughline=${THROUGHLINE:-target/release/throughline}
rows=${ROWS:-300000}
[ -x "$throughline" ] || cargo build --release --quiet -p throughline-cli --bin throughline
. benches/database.sh

is_wanted() {
    case " ${TABLES:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
}

# fill TABLE THINGS COLUMNS VALUES: ROWS rows, of each of THINGS things i one a step t of the last whole hour but one. In
# VALUES, c(n) is a busy counter of some 44 bits and e an epoch.
fill() {
    is_wanted "$1" || return 0
    $psql -q -v ON_ERROR_STOP=1 <<SQL
INSERT INTO internal.$1 ($3)
SELECT $4
FROM (SELECT date_trunc('hour', now()) - INTERVAL '2 hours' + step * (3600.0 * $2 / $rows) * INTERVAL '1 second' AS t,
             step, i, now() - INTERVAL '3 days' AS e
      FROM generate_series(0, $rows / $2 - 1) step, generate_series(1, $2) i ORDER BY step, i) s;
SQL
}
# How each table is held as columns, from the list of tables; empty on the Apache edition.
columnstores=''
case $($psql -qtA -c "SHOW timescaledb.license") in
timescale)
    columnstores=$(sed -n 's/^| .\([a-z_]*\). |.*| by \([a-z_]*\); \(.*\) |$/\1|\2|\3/p' docs/TABLES.md | sed 's/, [0-9]* B$//')
    ;;
esac

# size TABLE [OF]: bytes of a row of the table, and as columns.
size() {
    is_wanted "$1" || return 0
    of=$(echo "$columnstores" | sed -n "s/^$1|//p")
    bytes="SELECT round(sum(s.total_bytes) / (SELECT count(*) FROM internal.$1), 1) FROM public.chunks_detailed_size('internal.$1') s"
    line="$1${2:+ of $2} $($psql -qtA -c "SET client_min_messages = error" -c "VACUUM ANALYZE internal.$1" -c "$bytes")"
    if [ -n "$of" ]; then
        $psql -q -c "SET client_min_messages = error" -c "ALTER TABLE internal.$1 SET (timescaledb.compress,
            timescaledb.compress_segmentby = '${of%%|*}', timescaledb.compress_orderby = '${of#*|}')"
        begun=$(date +%s%N)
        $psql -q -c "SET client_min_messages = error" -c "SELECT public.compress_chunk(c) FROM public.show_chunks('internal.$1') c" >/dev/null
        took=$((($(date +%s%N) - begun) / 1000000 + 1))
        line="$line $($psql -qtA -c "$bytes") $(($($psql -qtA -c "SELECT count(*) FROM internal.$1") * 1000 / took))"
    fi
    echo "$line"
}
$psql -q -v ON_ERROR_STOP=1 <<'SQL'
-- From 0 to below a power of two, as nothing else: what is regular would become columns of no size.
CREATE FUNCTION noise(step bigint, i bigint, n integer, below integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (hashint8(step * 7919 + i * 104729 * 4096 + n) & (below - 1))::bigint $$;
-- A counter that grows by some MB a step, differently for each thing and column.
CREATE FUNCTION c(step bigint, i bigint, n integer) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT 1000000000000 + step * (1000000 + i * 7919 % 500000 * n) + noise(step, i, n, 131072) $$;
CREATE FUNCTION links(step bigint, i bigint, n integer, count integer) RETURNS bigint[] LANGUAGE sql IMMUTABLE AS
$$ SELECT array_agg(c(step, i, n + link)) FROM generate_series(1, count) link $$;
-- Rows as crates/packed/src/rows.rs packs them: five columns that each row has a number in, and three with NULL for none.
CREATE FUNCTION width_of(numbers bigint[]) RETURNS integer LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(max(length(ltrim(n::bit(64)::text, '0'))), 0) FROM unnest(numbers) n $$;
CREATE FUNCTION column_of(numbers bigint[]) RETURNS text LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(string_agg(right(n::bit(64)::text, width_of(numbers)), '' ORDER BY place), '')
   FROM unnest(numbers) WITH ORDINALITY u (n, place) $$;
CREATE FUNCTION packed(count integer, c1 bigint[], c2 bigint[], c3 bigint[], c4 bigint[], c5 bigint[], c6 bigint[], c7 bigint[], c8 bigint[])
RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
WITH columns AS (
    SELECT n, v, coalesce(array_remove(v, NULL), '{}') AS there FROM (VALUES (1, c1), (2, c2), (3, c3), (4, c4), (5, c5), (6, c6), (7, c7), (8, c8)) u (n, v)
), bases AS (
    SELECT n, v, there, CASE WHEN n <= 5 AND cardinality(there) * (width_of(ARRAY[most]) - width_of(ARRAY[most - least])) > width_of(ARRAY[least]) + 1
        THEN least ELSE 0 END AS base
    FROM (SELECT *, (SELECT min(x) FROM unnest(there) x) AS least, (SELECT max(x) FROM unnest(there) x) AS most FROM columns) c
), numbers AS (
    SELECT n, v, base * 2 AS zigzag, CASE WHEN n > 5 AND cardinality(there) < count
        THEN coalesce((SELECT string_agg(CASE WHEN x IS NULL THEN '0' ELSE '1' END, '' ORDER BY at) FROM unnest(v) WITH ORDINALITY u (x, at)),
                      repeat('0', count)) ELSE '' END AS presence,
        ARRAY(SELECT x - base FROM unnest(there) WITH ORDINALITY u (x, at) ORDER BY at) AS less FROM bases
), ends AS (SELECT *, sum(width_of(ARRAY[zigzag])) FILTER (WHERE n <= 5) OVER (ORDER BY n) AS base_end FROM numbers)
SELECT (count::bit(24)::text || string_agg(width_of(less)::bit(7)::text, '' ORDER BY n)
    || string_agg(base_end::integer::bit(9)::text, '' ORDER BY n) FILTER (WHERE n <= 5)
    || string_agg(CASE presence WHEN '' THEN '0' ELSE '1' END, '' ORDER BY n) FILTER (WHERE n > 5)
    || string_agg(CASE zigzag WHEN 0 THEN '' ELSE column_of(ARRAY[zigzag]) END, '' ORDER BY n) FILTER (WHERE n <= 5)
    || string_agg(presence || column_of(less), '' ORDER BY n))::bit varying FROM ends
$$;
-- What ten cells of a rank, or of so many ranks, have counted in so many seconds: calls and microseconds a second, bytes a call.
CREATE FUNCTION cells(seconds bigint, i bigint, ranks integer) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
SELECT packed(10, ARRAY(SELECT 100 + i % 900 + n FROM generate_series(0, 9) n), calls, bytes, inside, longest,
    ARRAY[NULL, NULL, inside[3] / 3, NULL, NULL, NULL, NULL, NULL, NULL, inside[10] / 3],
    ARRAY[NULL, NULL, bytes[3], NULL, NULL, NULL, NULL, NULL, NULL, bytes[10]], least)
FROM (
        SELECT array_agg(calls ORDER BY place) AS calls, array_agg(calls * size ORDER BY place) AS bytes,
            array_agg(calls * microseconds * (800 + i * 7919 % 400) + noise(seconds, i, place::integer, 1048576) ORDER BY place) AS inside,
            array_agg(microseconds * 9000 + i % 1000 ORDER BY place) AS longest,
            array_agg(calls * microseconds * (500 + i * 613 % 200) + noise(seconds, i, 20 + place::integer, 1048576) ORDER BY place) AS least
        FROM (SELECT place, ranks * seconds * rate + noise(seconds, i, 40 + place::integer, 64) * rate / 64 AS calls, size, microseconds FROM unnest(
            ARRAY[400, 900, 900, 220, 40, 12, 4, 25, 6, 300]::bigint[], ARRAY[8, 65536, 65536, 0, 8192, 1024, 0, 32768, 64, 1024]::bigint[],
            ARRAY[22, 3, 2, 180, 95, 40, 300, 900, 35, 2]::bigint[]) WITH ORDINALITY u (rate, size, microseconds, place)) of_cell) sums
$$;
-- What ten seconds brought of ten cells: the ranks with the least and the most time.
CREATE FUNCTION rounds(step bigint, i bigint) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
SELECT packed(10, array_agg(32::bigint), array_agg(cell * 40000000 + noise(step, i, 20 + cell, 1048576) ORDER BY cell),
    array_agg(cell * 60000000 + noise(step, i, 60 + cell, 1048576) ORDER BY cell), NULL, NULL,
    array_agg(i % 100 * 32 + noise(step, i, cell, 32) ORDER BY cell), array_agg(i % 100 * 32 + noise(step, i, 40 + cell, 32) ORDER BY cell), NULL)
FROM generate_series(1, 10) cell
$$;
-- Where the time of so many ranks went in so many seconds, as crates/packed/src/numbers.rs packs it: in MPI, in a file, asleep and so on.
CREATE FUNCTION account(seconds bigint, i bigint, ranks integer) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
SELECT (count(*)::integer::bit(5)::text || string_agg(width_of(ARRAY[v])::bit(6)::text, '' ORDER BY at)
    || string_agg(right(v::bit(64)::text, width_of(ARRAY[v])), '' ORDER BY at))::bit varying
FROM (SELECT at, CASE part WHEN 0 THEN 0 ELSE ranks * seconds * part + noise(seconds, i, at::integer, 1024) END AS v
      FROM unnest(ARRAY[0, 1000, 350, 90, 60, 200, 80, 0, 20, 10]::bigint[]) WITH ORDINALITY u (part, at)) numbers
$$;
-- Forty calls of some milliseconds, of a node's 32 ranks.
CREATE FUNCTION sampled(step bigint, i bigint) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
SELECT packed(40, array_agg(step * 4000 + call * 64 ORDER BY call), array_agg(32::bigint),
    array_agg(32 * (20000000 + noise(step, i, call, 8388608)) ORDER BY call), array_agg(9000000 + noise(step, i, 100 + call, 2097152) ORDER BY call),
    array_agg(noise(step, i, 200 + call, 32) ORDER BY call), array_agg(6::bigint), NULL, NULL)
FROM generate_series(1, 40) call
$$;
-- Bytes of a share to seven digits, as crates/store/src/packed_rows.rs rounds them.
CREATE FUNCTION scaled(bytes double precision) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT (greatest(width_of(ARRAY[b]) - 24, 0)::bigint << 24) | (b >> greatest(width_of(ARRAY[b]) - 24, 0)) FROM (SELECT bytes::real::bigint AS b) r $$;
CREATE FUNCTION share(step bigint, i bigint, n bigint) RETURNS double precision LANGUAGE sql IMMUTABLE AS
$$ SELECT 3e11 * ((step * 613 + i * 104729 + n * 7919 * (1 + n % 11)) % 99991 / 99991.0) $$;
CREATE FUNCTION shares(step bigint, i bigint) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
SELECT packed(240, NULL, NULL, NULL, NULL, NULL, array_agg(b ORDER BY n),
    array_agg(b - scaled(CASE n % 4 WHEN 0 THEN 0 ELSE share(step, i, n) * (0.5 + share(i, step, n) / 7e11) END) ORDER BY n),
    array_agg(scaled(share(step, i, n) * (1 + share(i, n, step) / 3e11)) - b ORDER BY n))
FROM (SELECT n, scaled(share(step, i, n)) AS b FROM generate_series(1::bigint, 240) n) s
$$;
CREATE FUNCTION minutes_of_hour(step bigint, i bigint) RETURNS bit varying LANGUAGE sql IMMUTABLE AS $$
SELECT packed(60, array_agg(n ORDER BY n), array_agg(6::bigint), array_agg(1::bigint), NULL, NULL, array_agg(scaled(share(i, step, n)) ORDER BY n),
    NULL, NULL) FROM generate_series(0::bigint, 59) n
$$;
SQL
port_columns="transmit_data_bytes, receive_data_bytes, transmit_packets, receive_packets, unicast_transmit_packets,
    unicast_receive_packets, multicast_transmit_packets, multicast_receive_packets, transmit_wait, symbol_error,
    link_error_recovery, link_downed, receive_errors, receive_remote_physical_errors, receive_switch_relay_errors,
    transmit_discards, transmit_constraint_errors, receive_constraint_errors, local_link_integrity_errors,
    excessive_buffer_overrun_errors, vl15_dropped, rate_bytes_per_second"
port_values="c(step, i, 1), c(step, i, 2), c(step, i, 3), c(step, i, 4), c(step, i, 5), c(step, i, 6), 7, 8, c(step, i, 9),
    0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 25000000000"
fill ib_port_counters 500 "time, port_id, epoch, source, $port_columns" "t, i, e, 'mad', $port_values"
fill host_port_counters 500 "time, host_port_id, epoch, source, port_data_transmitted_bytes, port_data_received_bytes,
    port_packets_transmitted, port_packets_received, unicast_packets_transmitted, unicast_packets_received,
    multicast_packets_transmitted, multicast_packets_received, port_transmit_wait, symbol_error, link_error_recovery, link_downed,
    port_errors_received, port_receive_remote_physical_errors, port_receive_switch_relay_errors, port_discards_transmitted,
    port_constraint_errors_transmitted, port_constraint_errors_received, local_link_integrity_errors,
    excessive_buffer_overrun_errors, vl15_dropped, rate_bytes_per_second" "t, i, e, 'sysfs', $port_values"
fill ib_port_lane_counters 500 "time, port_id, epoch, source, vl_transmit_wait" "t, i, e, 'mad', links(step, i, 1, 8)"
for count in 6 18; do
    $psql -q -c "TRUNCATE internal.nvlink_counters, internal.nvlink_minutes"
    fill nvlink_counters 200 "time, gpu_id, epoch, source, transmit_bytes, receive_bytes, replay_errors, recovery_errors,
        crc_errors, speed_bytes_per_second, up" "t, i, e, 'nvml', links(step, i, 1, $count), links(step, i, 20, $count),
        array_fill(0::bigint, ARRAY[$count]), array_fill(0::bigint, ARRAY[$count]), array_fill(0::bigint, ARRAY[$count]),
        array_fill(26562500000, ARRAY[$count]), array_fill(1::bigint, ARRAY[$count])"
    fill nvlink_minutes 200 "time, gpu_id, source, epoch, seconds, transmit_bytes_per_second, receive_bytes_per_second,
        transmit_peak_bytes_per_second, receive_peak_bytes_per_second, transmit_busy_ratio, receive_busy_ratio,
        speed_bytes_per_second, last_time, transmit_bytes, receive_bytes" "t, i, 'nvml', e, array_fill(60::real, ARRAY[$count]),
        links(step, i, 1, $count)::real[], links(step, i, 2, $count)::real[], links(step, i, 3, $count)::real[],
        links(step, i, 4, $count)::real[], array_fill(0.1::real, ARRAY[$count]), array_fill(0.1::real, ARRAY[$count]),
        array_fill(26562500000, ARRAY[$count]), t, links(step, i, 1, $count), links(step, i, 20, $count)"
    size nvlink_counters "$count links"
    size nvlink_minutes "$count links"
done
fill gpu_pcie_counters 200 "time, gpu_id, epoch, source, transmit_bytes, receive_bytes" "t, i, e, 'nvml', c(step, i, 1), c(step, i, 2)"
fill gpu_pm_counters 200 "time, gpu_id, epoch, source, nvlink_transmit_bytes, nvlink_receive_bytes, pcie_read_bytes,
    pcie_write_bytes, nvlink_transmit_peak_bytes_per_second, nvlink_receive_peak_bytes_per_second,
    pcie_read_peak_bytes_per_second, pcie_write_peak_bytes_per_second, samples, void_samples, buffer_overflows" "t, i, e, 'cupti',
    c(step, i, 1), c(step, i, 2), c(step, i, 3), c(step, i, 4), c(step, i, 5), c(step, i, 6), c(step, i, 7), c(step, i, 8), step, 0, 0"
# Half of them sums, half of them values.
fill gpu_metrics 2000 "time, gpu_metric_id, epoch, source, sum, value" "t, i, e, 'cupti', CASE WHEN i % 2 = 0 THEN c(step, i, 1) END,
    CASE WHEN i % 2 = 1 THEN noise(step, i, 2, 131072) / 1311.0 END"
operation="(ARRAY['allreduce', 'isend', 'irecv', 'waitall', 'bcast'])[1 + i % 5]"
# All cells of a rank in a row, as ranks that have run for half a day have them; and of a node's ranks.
all=$rows rows=$((rows < 20000 ? rows : 20000))
fill mpi_rank_rows 500 "time, job_id, rank, node_id, epoch, source, is_folded, cells" "t, i / 32, i, i / 32, e, 'pmpi', true, cells(43200 + step * 300, i, 1)"
fill mpi_node_rows 500 "time, job_id, node_id, epoch, since, source, is_whole, cells, rounds, account" "t, i / 10, i, e, t - INTERVAL '10 seconds',
    'pmpi', true, cells(43200 + step * 10, i, 32), rounds(step, i), account(43200 + step * 10, i, 32)"
rows=$all
# Peers in one row: of a rank's four and of many, of a node's 128 in the time of its ranks.
for count in 4 128; do
    all=$rows rows=$((rows < 40000 ? rows : 40000))
    $psql -q -c "TRUNCATE internal.mpi_rank_peers, internal.mpi_node_traffic"
    peers="(SELECT array_agg((i * 7 + peer * 13)::integer % 4096) FROM generate_series(1, $count) peer)"
    fill mpi_rank_peers 500 "time, job_id, rank, node_id, kind, epoch, source, is_whole, peers, bytes, messages" "t, i / 32, i, i / 32, 'logical', e,
        'pmpi', true, $peers, links(step, i, 1, $count), links(step, i, 2, $count)"
    fill mpi_node_traffic 500 "time, job_id, node_id, operation, kind, direction, epoch, since, source, is_whole, peers, bytes, messages" "t,
        i / 10, i, 'alltoall', 'modelled', 'transmit', e, t - INTERVAL '10 seconds', 'pmpi', true, $peers, links(step, i, 1, $count),
        links(step, i, 2, $count)"
    rows=$all
    size mpi_rank_peers "$count peers"
    size mpi_node_traffic "$count peers"
done
fill mpi_regions 500 "time, job_id, rank, node_id, region, epoch, source, visits, elapsed_seconds, own_seconds, mpi_calls, mpi_seconds" "t,
    i / 100, i / 5, i / 160, 'solve' || i % 5, e, 'annotation', step, step * 0.1, step * 0.1, step * 10, step * 0.01"
fill mpi_region_paths 500 "time, job_id, rank, node_id, path, epoch, source, visits, elapsed_seconds, own_seconds, mpi_calls, mpi_seconds" "t,
    i / 100, i / 5, i / 160, 'main/solve/halo' || i % 5, e, 'annotation', step, step * 0.1, step * 0.1, step * 10, step * 0.01"
fill mpi_pvars 500 "time, job_id, rank, node_id, name, element, source, variable_class, value" "t, i / 100, i / 5, i / 160,
    'unexpected_recvq_length', i % 5, 'mpi_t', 'level', step * 0.5"
# Four calls a second, ten seconds in a row.
rows=$((rows / 5))
fill mpi_sampled_calls 500 "time, job_id, node_id, comm_group, operation, size_class_bytes, cell, group_size, members, packed" "t, i / 50, i,
    1234567890123456789, 'allreduce', 1024, 987654321987654321, 128, '0-127', sampled(step, i)"
rows=$((rows * 5))
# Self-metrics of a daemon: those that changed, and all with the totals of MPI.
for count in 9 75; do
    all=$rows rows=$((rows < 60000 ? rows : 60000))
    $psql -q -c "TRUNCATE internal.self_stat_rows"
    fill self_stat_rows 500 "time, instance, sources, labels, names, readings" "t, 'node' || i,
        (SELECT array_agg((ARRAY['delivery', 'spool', 'mpi', 'allreduce', 'sysfs', 'recorder'])[1 + n % 6] ORDER BY n)
         FROM generate_series(1, $count) n),
        (SELECT array_agg(CASE n % 6 WHEN 0 THEN 'disk_full' ELSE '' END ORDER BY n) FROM generate_series(1, $count) n),
        (SELECT array_agg((ARRAY['delivered_entries', 'records_discarded', 'records_rejected', 'mpi_elapsed_seconds', 'records',
         'source_up'])[1 + n % 6] ORDER BY n) FROM generate_series(1, $count) n),
        (SELECT array_agg(CASE WHEN n > 9 AND n % 2 = 0 THEN n * 1000 ELSE step * 17.5 + noise(step, i, n, 1024) END ORDER BY n)
         FROM generate_series(1, $count) n)"
    rows=$all
    size self_stat_rows "$count values"
done
fill coverage 500 "time, instance, source, expected, read, failed, elapsed_seconds, rounds, first_time" "t, 'node' || i, 'sysfs', 1, 1, 0,
    0.001 + noise(step, i, 1, 1024) / 1e6, 30, t - INTERVAL '29 seconds'"
fill ib_port_minutes 500 "time, port_id, epoch, seconds, transmit_bytes_per_second, receive_bytes_per_second,
    transmit_peak_bytes_per_second, receive_peak_bytes_per_second, transmit_busy_ratio, receive_busy_ratio,
    transmit_wait_bytes_per_second, errors, rate_bytes_per_second, last_time, transmit_data_bytes, receive_data_bytes" "t, i, e, 60,
    c(step, i, 1), c(step, i, 2), c(step, i, 3), c(step, i, 4), 0.1, 0.2, c(step, i, 5), 0, 25000000000, t, c(step, i, 1), c(step, i, 2)"
fill host_port_minutes 500 "time, host_port_id, epoch, seconds, transmit_bytes_per_second, receive_bytes_per_second,
    transmit_peak_bytes_per_second, receive_peak_bytes_per_second, transmit_busy_ratio, receive_busy_ratio,
    rate_bytes_per_second, last_time, port_data_transmitted_bytes, port_data_received_bytes" "t, i, e, 60,
    c(step, i, 1), c(step, i, 2), c(step, i, 3), c(step, i, 4), 0.1, 0.2, 25000000000, t, c(step, i, 1), c(step, i, 2)"
who="CASE WHEN i % 4 = 0 THEN 'rest' ELSE 'job' END"
for table in link_shares link_share_minutes; do
    more_columns='' more_values=''
    [ $table = link_shares ] || { more_columns=', peak_counted_bytes, windows' more_values=', c(step, i, 5), 6'; }
    fill $table 1000 "time, port_id, contributor, job_id, operation, bytes, low_bytes, high_bytes, kind, is_bound, counted_bytes$more_columns" \
        "t, i / 4, $who, CASE WHEN i % 4 > 0 THEN i END, CASE WHEN i % 4 > 0 THEN $operation END, c(step, i, 1), c(step, i, 2), c(step, i, 3),
        'modelled', false, c(step, i, 4)$more_values"
done
# A port's hour of minutes with four contributors; the last one is what nobody is known for.
all=$rows rows=$((rows < 1000 ? rows : 1000))
fill link_share_hours 500 "time, port_id, contributors, job_ids, operations, names, kinds, are_bounds, minutes, shares" "t, i,
    '{job,job,host,rest}', ARRAY[i, i + 1, NULL, NULL]::bigint[], '{alltoall,isend,NULL,NULL}', ARRAY[NULL, NULL, 'node' || i, NULL]::text[],
    '{modelled,modelled,unreported,unreported}', '{f,f,f,f}', minutes_of_hour(step, i), shares(step, i)"
rows=$all
for table in $($psql -qtA -c "SELECT DISTINCT hypertable_name FROM timescaledb_information.chunks WHERE hypertable_name NOT LIKE 'nvlink%'
    AND hypertable_name NOT IN ('mpi_rank_peers', 'mpi_node_traffic', 'self_stat_rows') ORDER BY 1"); do
    size "$table"
done
