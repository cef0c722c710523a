# A database of its own with a site of HOSTS hosts and JOBS live jobs, and a server on it, for benches that are sourced
# into: a fat tree of two layers, a sweep of all ports each PAUSE (1) seconds and operations of all jobs all the while.
# Needs hosts, jobs and throughline; sets folder, started, query and psql. Everything is stopped and removed at the end.
# shellcheck shell=sh disable=SC2034,SC2154 # what it needs and what it sets
. benches/database.sh

# 21 hosts a leaf, 18 spines; nodes are numbered hosts, leaves, spines. Links are pairs of (node, port).
leaves=$(((hosts + 20) / 21))
$psql -q -v ON_ERROR_STOP=1 <<SQL
INSERT INTO internal.fabric (name, guids) VALUES ('0xfe80000000000000', ARRAY['0xfe80000000000000']);
INSERT INTO internal.ib_node_key (fabric_id, guid)
SELECT 1, '0x' || lpad(to_hex(g), 16, '0') FROM generate_series(1, $hosts + $leaves + 18) g;
INSERT INTO internal.ib_node (ib_node_id, guid, type, description, lid, device_id, vendor_id, system_guid, generation, valid_from)
SELECT id, guid, CASE WHEN id <= $hosts THEN 'ca' ELSE 'switch' END,
       CASE WHEN id <= $hosts THEN 'n' || id || ' mlx5_0' WHEN id <= $hosts + $leaves THEN 'leaf' || id - $hosts
            ELSE 'spine' || id - $hosts - $leaves END, id, 1, 1, guid, 1, now() - INTERVAL '1 day'
FROM internal.ib_node_key;
CREATE TEMPORARY TABLE cable AS
SELECT h AS a, 1 AS port_a, $hosts + 1 + (h - 1) / 21 AS b, 1 + (h - 1) % 21 AS port_b FROM generate_series(1, $hosts) h
UNION ALL
SELECT $hosts + l, 21 + s, $hosts + $leaves + s, l FROM generate_series(1, $leaves) l, generate_series(1, 18) s;
INSERT INTO internal.ib_port_key (ib_node_id, port) SELECT a, port_a FROM cable UNION SELECT b, port_b FROM cable ORDER BY 1, 2;
INSERT INTO internal.ib_port (port_id, ib_node_id, port, port_guid, lid, state, physical_state, width, speed,
                     rate_bytes_per_second, remote_port_id, valid_from)
SELECT k.id, k.ib_node_id, k.port, '', k.ib_node_id, 'Active', 'LinkUp', '4x', '50.0 Gbps', 25000000000, o.id,
       now() - INTERVAL '1 day'
FROM (SELECT a, port_a, b, port_b FROM cable UNION ALL SELECT b, port_b, a, port_a FROM cable) c
JOIN internal.ib_port_key k ON k.ib_node_id = c.a AND k.port = c.port_a
JOIN internal.ib_port_key o ON o.ib_node_id = c.b AND o.port = c.port_b;
INSERT INTO internal.ib_link (port_a_id, port_b_id, valid_from)
SELECT port_id, remote_port_id, valid_from FROM internal.ib_port WHERE port_id < remote_port_id;
INSERT INTO internal.node_key (name) SELECT 'n' || h FROM generate_series(1, $hosts) h ORDER BY h;
INSERT INTO internal.node (node_id, name, hca_guids, valid_from)
SELECT h.id, h.name, ARRAY[k.guid], now() - INTERVAL '1 day' FROM internal.node_key h JOIN internal.ib_node_key k ON k.id = h.id;
INSERT INTO internal.run (key, scheduler, native_id, step, uid, user_name, name, command, start_time, world_size)
SELECT 'slurm:' || j || '.0@1000', 'slurm', j::text, '0', 1000, 'user' || j % 50, 'job' || j, './solve',
       now() - j * INTERVAL '1 second', 16 FROM generate_series(1, $jobs) j;
INSERT INTO internal.job_rank (job_id, rank, node_id, host, pid, world_size, mpi_library, start_time)
SELECT j.id, r, k.id, k.name, 1000 + r, 16, 'Open MPI v4.1.4', j.start_time
FROM internal.run j, generate_series(0, 15) r JOIN LATERAL (SELECT 1) one ON true, internal.node_key k
WHERE k.id = 1 + (j.id * 4 + r / 4) % $hosts;
INSERT INTO internal.run_claim (job_id, node_id, first_seen, last_seen, reported_at)
SELECT DISTINCT job_id, node_id, start_time, now(), now() FROM internal.job_rank;
ANALYZE internal.ib_node_key, internal.ib_node, internal.ib_port_key, internal.ib_port, internal.ib_link, internal.node_key, internal.node, internal.run, internal.rank_claim, internal.run_claim;
SQL
cat >"$folder/sweep.sql" <<SQL
INSERT INTO internal.ib_port_counters (time, port_id, epoch, source, transmit_data_bytes, receive_data_bytes, transmit_packets,
    receive_packets, transmit_wait, transmit_wait_tick_bytes, rate_bytes_per_second, link_downed, symbol_error)
SELECT t.now, k.id, to_timestamp(0), 'mad', ((extract(epoch FROM t.now) - 1.7e9) * 1e6)::bigint * (1 + k.id % 9000),
    ((extract(epoch FROM t.now) - 1.7e9) * 1e9)::bigint, 1, 1, (extract(epoch FROM t.now) * 1e3)::bigint, 8, 25000000000, 0, 0
FROM internal.ib_port_key k, (SELECT clock_timestamp() AS now) t ON CONFLICT DO NOTHING;
INSERT INTO internal.coverage (time, instance, source, expected, read, failed, elapsed_seconds)
SELECT clock_timestamp(), (SELECT 'fabric:' || id FROM internal.fabric), 'mad', count(*), count(*), 0, 0.2 FROM internal.ib_port_key;
$(cat crates/store/src/testing/packed_cells.sql)
INSERT INTO internal.mpi_cell_key (operation, size_class_bytes, region, algorithm, algorithm_source) VALUES ('allreduce', 8, '', '', '')
ON CONFLICT DO NOTHING;
INSERT INTO internal.mpi_node_rows (time, job_id, node_id, epoch, since, source, is_whole, cells, rounds)
SELECT clock_timestamp(), r.job_id, r.node_id, min(r.start_time), now() - INTERVAL '1 second', 'pmpi', true,
    pg_temp.packed_cells(ARRAY[min(c.id)::integer], ARRAY[count(*) * 10], ARRAY[count(*) * 80], ARRAY[count(*) * 100000000]),
    pg_temp.packed_rounds(1, count(*), min(r.rank), 50000000, max(r.rank), 150000000)
FROM internal.job_rank r, internal.mpi_cell_key c GROUP BY r.job_id, r.node_id ON CONFLICT DO NOTHING;
-- Agents report each job once a minute.
UPDATE internal.run_claim SET last_seen = now(), reported_at = now() WHERE job_id % 60 = extract(second FROM now())::integer;
SQL
ingest() {
    while :; do
        $psql -q -v ON_ERROR_STOP=1 -f "$folder/sweep.sql"
        sleep "${PAUSE:-1}"
    done
}
THROUGHLINE__QUERY__LISTEN=127.0.0.1:0 THROUGHLINE__COLLECT__LISTEN=127.0.0.1:0 \
    "$throughline" serve --state-dir "$folder/state" >"$folder/serve.out" 2>"$folder/serve.log" &
started="$started $!"
for _ in $(seq 600); do
    query=$(sed -n 's/.*listening query=\([^ ]*\).*/\1/p' "$folder/serve.out")
    [ -z "$query" ] || break
    sleep 0.1
done
ingest >"$folder/ingest.log" 2>&1 &
started="$started $!"
