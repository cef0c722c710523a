-- Sums that are larger than a bigint, which a rank may claim, stand at its largest value and are no error of the
-- whole query; sums of nothing stay NULL. Immutable once released: later changes are new files.

CREATE FUNCTION stored_total(total numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN least(total, 9223372036854775807)::bigint;
COMMENT ON FUNCTION stored_total IS 'A sum of counters as bigint; NULL stays NULL.';

CREATE OR REPLACE VIEW mpi_op_cell_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm,
       max(t.algorithm_source) AS algorithm_source, stored_total(sum(t.calls)) AS calls,
       stored_total(sum(t.bytes)) AS bytes,
       sum(t.elapsed_seconds) AS elapsed_seconds, max(t.longest_seconds) AS longest_seconds,
       sum(t.wait_seconds) AS wait_seconds, stored_total(sum(t.received_bytes)) AS received_bytes,
       max(t.last_time) AS last_time
FROM job j
CROSS JOIN LATERAL mpi_op_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm;

CREATE OR REPLACE VIEW mpi_op_totals AS
SELECT job_key, job_id, rank, operation, stored_total(sum(calls)) AS calls, stored_total(sum(bytes)) AS bytes,
       sum(elapsed_seconds) AS elapsed_seconds, max(longest_seconds) AS longest_seconds, max(last_time) AS last_time,
       sum(wait_seconds) AS wait_seconds, stored_total(sum(received_bytes)) AS received_bytes
FROM mpi_op_cell_totals
GROUP BY job_key, job_id, rank, operation;

CREATE OR REPLACE VIEW mpi_peer_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.peer, t.kind, stored_total(sum(t.bytes)) AS bytes,
       stored_total(sum(t.messages)) AS messages, max(t.last_time) AS last_time
FROM job j
CROSS JOIN LATERAL mpi_peer_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.peer, t.kind;

CREATE OR REPLACE VIEW mpi_region_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.region, stored_total(sum(t.visits)) AS visits,
       sum(t.elapsed_seconds) AS elapsed_seconds, sum(t.own_seconds) AS own_seconds,
       stored_total(sum(t.mpi_calls)) AS mpi_calls, sum(t.mpi_seconds) AS mpi_seconds, max(t.last_time) AS last_time
FROM job j
CROSS JOIN LATERAL mpi_region_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.region;

CREATE OR REPLACE VIEW mpi_rank_totals AS
SELECT t.job_key, t.job_id, t.rank, t.calls, t.bytes, t.elapsed_seconds, s.observed_seconds, t.last_time,
       t.wait_seconds, t.received_bytes
FROM (
    SELECT job_key, job_id, rank, stored_total(sum(calls)) AS calls, stored_total(sum(bytes)) AS bytes,
           sum(elapsed_seconds) AS elapsed_seconds, max(last_time) AS last_time, sum(wait_seconds) AS wait_seconds,
           stored_total(sum(received_bytes)) AS received_bytes
    FROM mpi_op_totals GROUP BY job_key, job_id, rank) t
CROSS JOIN LATERAL (
    SELECT sum(extract(epoch FROM coalesce(r.end_time, greatest(t.last_time, r.start_time)) - r.start_time))
               ::double precision AS observed_seconds
    FROM job_rank r WHERE r.job_id = t.job_id AND r.rank = t.rank) s;
