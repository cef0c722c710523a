-- Totals of jobs, found without reading all their rows. Immutable once released: later changes are new files.
--
-- Rows are cumulative, so a total is the last row of each cell and epoch. The primary keys end with the time:
-- going down one of them, the first row of each cell is its last one, and the next cell is one step of the
-- index away. So the cost follows the number of cells, whatever a job's length and its bins. Each cell of a rank
-- that was started again has one more step for each other start (job_rank).

CREATE FUNCTION job_span(job integer, OUT since timestamptz, OUT ending timestamptz)
LANGUAGE sql STABLE
AS $$
    -- Clocks of nodes differ a little, and last rows come from bins that end after the rank.
    SELECT coalesce(min(r.start_time) - INTERVAL '2 minutes', '-infinity'),
           CASE WHEN bool_and(r.end_time IS NOT NULL) THEN max(r.end_time) + INTERVAL '10 minutes'
                ELSE 'infinity' END
    FROM job_rank r WHERE r.job_id = job_span.job
$$;
COMMENT ON FUNCTION job_span IS 'The time in which rows of a job lie, so that other chunks are not looked into.';

CREATE FUNCTION mpi_op_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- Statistics of a chunk that has just begun are none: without these the planner may sort a job's whole history.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM job_span(mpi_op_cells.job);
    -- EXECUTE, so that the times are constants of the plan and chunks outside of them no part of it.
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_ops m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.rank DESC, m.operation DESC, m.size_class_bytes DESC, m.region DESC, m.algorithm DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_ops m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.rank, m.operation, m.size_class_bytes, m.region, m.algorithm)
                      < ((l.cell).rank, (l.cell).operation, (l.cell).size_class_bytes, (l.cell).region, (l.cell).algorithm)
                ORDER BY m.rank DESC, m.operation DESC, m.size_class_bytes DESC, m.region DESC, m.algorithm DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_ops m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.operation = (l.cell).operation
                  AND m.size_class_bytes = (l.cell).size_class_bytes AND m.region = (l.cell).region
                  AND m.algorithm = (l.cell).algorithm AND m.epoch = r.start_time
                  AND m.time >= greatest($2, r.start_time)
                  AND m.time <= least($3, r.end_time + INTERVAL '10 minutes')
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).operation, (cell).size_class_bytes, (cell).region, (cell).algorithm,
               (cell).algorithm_source, (cell).epoch, (cell).calls, (cell).bytes, (cell).elapsed_seconds,
               (cell).longest_seconds, (cell).wait_seconds, (cell).received_bytes, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_op_cells IS
    'The last row of each cell and epoch of a job''s operations, up to a time: their sums are the job''s totals as of then.';

CREATE FUNCTION mpi_peer_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, peer integer, kind text, epoch timestamptz, bytes bigint, messages bigint, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
    dense boolean;
BEGIN
    SELECT * INTO span FROM job_span(mpi_peer_cells.job);
    -- A step of the index costs as much as reading some 30 rows. A large world where all send to all seldom has few
    -- rows for each of very many pairs: then all are read.
    EXECUTE $query$
        SELECT count(*) < 30 * count(DISTINCT (s.rank, s.peer, s.kind))
        FROM (SELECT m.rank, m.peer, m.kind FROM mpi_peers m
              WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
              ORDER BY m.rank, m.peer, m.kind, m.time LIMIT 20000) s
    $query$ INTO dense USING job, span.since, least(span.ending, until);
    IF dense THEN
        RETURN QUERY EXECUTE $query$
            SELECT m.rank, m.peer, m.kind, m.epoch, max(m.bytes), max(m.messages), max(m.time) FROM mpi_peers m
            WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
            GROUP BY m.rank, m.peer, m.kind, m.epoch
        $query$ USING job, span.since, least(span.ending, until);
        RETURN;
    END IF;
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_peers m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.rank DESC, m.peer DESC, m.kind DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_peers m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.rank, m.peer, m.kind) < ((l.cell).rank, (l.cell).peer, (l.cell).kind)
                ORDER BY m.rank DESC, m.peer DESC, m.kind DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_peers m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.peer = (l.cell).peer AND m.kind = (l.cell).kind
                  AND m.epoch = r.start_time AND m.time >= greatest($2, r.start_time)
                  AND m.time <= least($3, r.end_time + INTERVAL '10 minutes')
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).peer, (cell).kind, (cell).epoch, (cell).bytes, (cell).messages, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_peer_cells IS
    'The last row of each pair of ranks, kind and epoch of a job, up to a time: their sums are the traffic until then.';

CREATE FUNCTION mpi_region_cells(job integer, until timestamptz DEFAULT 'infinity')
RETURNS TABLE (
    rank integer, region text, epoch timestamptz, visits bigint, elapsed_seconds double precision,
    own_seconds double precision, mpi_calls bigint, mpi_seconds double precision, last_time timestamptz)
LANGUAGE plpgsql STABLE ROWS 1000 COST 1000000
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM job_span(mpi_region_cells.job);
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS cell FROM mpi_regions m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
             ORDER BY m.rank DESC, m.region DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.cell FROM newest l CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_regions m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3
                  AND (m.rank, m.region) < ((l.cell).rank, (l.cell).region)
                ORDER BY m.rank DESC, m.region DESC, m.time DESC
                LIMIT 1) n
        ), earlier AS (
            SELECT e.cell FROM newest l
            JOIN job_rank r ON r.job_id = $1 AND r.rank = (l.cell).rank AND r.start_time <> (l.cell).epoch
            CROSS JOIN LATERAL (
                SELECT m AS cell FROM mpi_regions m
                WHERE m.job_id = $1 AND m.rank = r.rank AND m.region = (l.cell).region AND m.epoch = r.start_time
                  AND m.time >= greatest($2, r.start_time)
                  AND m.time <= least($3, r.end_time + INTERVAL '10 minutes')
                ORDER BY m.time DESC
                LIMIT 1) e
        )
        SELECT (cell).rank, (cell).region, (cell).epoch, (cell).visits, (cell).elapsed_seconds, (cell).own_seconds,
               (cell).mpi_calls, (cell).mpi_seconds, (cell).time
        FROM (SELECT cell FROM newest UNION ALL SELECT cell FROM earlier) cells
    $query$ USING job, span.since, least(span.ending, until);
END
$$;
COMMENT ON FUNCTION mpi_region_cells IS 'The last row of each region and epoch of a job''s ranks, up to a time.';

-- The views as before, made of these. A query that names no job goes through all of them.

CREATE OR REPLACE VIEW mpi_op_cell_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm,
       max(t.algorithm_source) AS algorithm_source, sum(t.calls)::bigint AS calls, sum(t.bytes)::bigint AS bytes,
       sum(t.elapsed_seconds) AS elapsed_seconds, max(t.longest_seconds) AS longest_seconds,
       sum(t.wait_seconds) AS wait_seconds, sum(t.received_bytes)::bigint AS received_bytes,
       max(t.last_time) AS last_time
FROM job j
CROSS JOIN LATERAL mpi_op_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.operation, t.size_class_bytes, t.region, t.algorithm;

CREATE OR REPLACE VIEW mpi_peer_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.peer, t.kind, sum(t.bytes)::bigint AS bytes,
       sum(t.messages)::bigint AS messages, max(t.last_time) AS last_time
FROM job j
CROSS JOIN LATERAL mpi_peer_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.peer, t.kind;

CREATE OR REPLACE VIEW mpi_region_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.region, sum(t.visits)::bigint AS visits,
       sum(t.elapsed_seconds) AS elapsed_seconds, sum(t.own_seconds) AS own_seconds,
       sum(t.mpi_calls)::bigint AS mpi_calls, sum(t.mpi_seconds) AS mpi_seconds, max(t.last_time) AS last_time
FROM job j
CROSS JOIN LATERAL mpi_region_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.region;

CREATE OR REPLACE VIEW mpi_rank_totals AS
SELECT t.job_key, t.job_id, t.rank, t.calls, t.bytes, t.elapsed_seconds, s.observed_seconds, t.last_time,
       t.wait_seconds, t.received_bytes
FROM (
    SELECT job_key, job_id, rank, sum(calls)::bigint AS calls, sum(bytes)::bigint AS bytes,
           sum(elapsed_seconds) AS elapsed_seconds, max(last_time) AS last_time, sum(wait_seconds) AS wait_seconds,
           sum(received_bytes)::bigint AS received_bytes
    FROM mpi_op_totals GROUP BY job_key, job_id, rank) t
CROSS JOIN LATERAL (
    SELECT sum(extract(epoch FROM coalesce(r.end_time, greatest(t.last_time, r.start_time)) - r.start_time))
               ::double precision AS observed_seconds
    FROM job_rank r WHERE r.job_id = t.job_id AND r.rank = t.rank) s;

CREATE OR REPLACE VIEW job_summary AS
SELECT j.id, j.key AS job_key, j.scheduler, j.native_id, j.step, j.uid, j.user_name, j.command, j.start_time,
       CASE WHEN r.ranks IS NULL THEN j.end_time WHEN r.running = 0 THEN r.last_end END AS end_time,
       j.first_seen, j.world_size, coalesce(r.ranks, 0) AS ranks, coalesce(r.nodes, 0) AS nodes,
       coalesce(r.running, 0) AS ranks_running, coalesce(r.lost, 0) AS ranks_lost,
       coalesce(r.started, 0) AS rank_starts, r.libraries, coalesce(r.unseen, 0) AS ranks_unseen,
       coalesce(r.silent, 0) AS ranks_silent, j.name, j.account, j.queue, j.array_id
FROM job j
LEFT JOIN LATERAL (
    SELECT count(DISTINCT rank) AS ranks, count(DISTINCT host) AS nodes, count(*) AS started,
           count(*) FILTER (WHERE end_time IS NULL) AS running,
           count(*) FILTER (WHERE ending = 'lost') AS lost, count(*) FILTER (WHERE ending = 'unseen') AS unseen,
           count(*) FILTER (WHERE ending = 'silent') AS silent, max(end_time) AS last_end,
           array_agg(DISTINCT mpi_library) AS libraries
    FROM job_rank WHERE job_id = j.id HAVING count(*) > 0) r ON true;

-- Links of a job's nodes while it ran.

CREATE FUNCTION job_links(job integer)
RETURNS TABLE (
    kind text, node_name text, link text, direction text, rate_bytes_per_second bigint, bytes double precision,
    p95_bytes_per_second double precision, max_bytes_per_second double precision,
    p95_utilisation double precision, max_utilisation double precision, readings bigint)
LANGUAGE plpgsql STABLE
SET jit = off
AS $$
DECLARE
    began timestamptz;
    ended timestamptz;
BEGIN
    SELECT s.start_time, coalesce(s.end_time, now()) INTO began, ended FROM job_summary s WHERE s.id = job_links.job;
    RETURN QUERY
    WITH hosts AS (
        SELECT DISTINCT k.id, k.name FROM job_rank r JOIN node_key k ON k.id = r.node_id WHERE r.job_id = job_links.job
    ), rates AS (
        SELECT 'host' AS kind, h.name AS node_name, p.device || ' port ' || p.port AS link, r.interval_seconds AS seconds,
               r.rate_bytes_per_second AS rate, r.transmit_bytes_per_second AS transmit,
               r.receive_bytes_per_second AS receive
        FROM hosts h
        JOIN host_port_key p ON p.node_id = h.id
        CROSS JOIN LATERAL (SELECT * FROM host_port_rates(began, ended) a WHERE a.host_port_id = p.id) r
        UNION ALL
        SELECT 'nvlink', h.name, 'GPU ' || g.index || ' link ' || r.link, r.interval_seconds, r.speed_bytes_per_second,
               r.transmit_bytes_per_second, r.receive_bytes_per_second
        FROM hosts h
        JOIN gpu g ON g.node_id = h.id AND g.valid_to IS NULL
        CROSS JOIN LATERAL (SELECT * FROM nvlink_rates(began, ended) a WHERE a.gpu_id = g.gpu_id) r
        UNION ALL
        SELECT 'fabric', h.name, r.link_name, r.interval_seconds, r.rate_bytes_per_second, r.transmit_bytes_per_second,
               r.receive_bytes_per_second
        FROM hosts h
        JOIN node n ON n.node_id = h.id AND n.valid_to IS NULL
        JOIN ib_node_key k ON k.guid = ANY (n.hca_guids)
        JOIN ib_port_key p ON p.ib_node_id = k.id
        CROSS JOIN LATERAL (SELECT * FROM ib_port_rates(began, ended) a WHERE a.port_id = p.id) r
    ), directions AS (
        SELECT a.kind, a.node_name, a.link, 'out' AS direction, a.rate, a.seconds, a.transmit AS speed FROM rates a
        UNION ALL
        SELECT a.kind, a.node_name, a.link, 'in', a.rate, a.seconds, a.receive FROM rates a
    ), weighed AS (
        -- A reading stands for the time since the one before.
        SELECT d.*, sum(d.seconds) OVER (PARTITION BY d.kind, d.node_name, d.link, d.direction ORDER BY d.speed) AS below,
               sum(d.seconds) OVER (PARTITION BY d.kind, d.node_name, d.link, d.direction) AS total
        FROM directions d WHERE d.speed IS NOT NULL
    )
    SELECT w.kind, w.node_name, w.link, w.direction, max(w.rate), sum(w.speed * w.seconds),
           min(w.speed) FILTER (WHERE w.below >= 0.95 * w.total), max(w.speed),
           min(w.speed) FILTER (WHERE w.below >= 0.95 * w.total) / nullif(max(w.rate), 0),
           max(w.speed) / nullif(max(w.rate), 0), count(*)
    FROM weighed w
    GROUP BY w.kind, w.node_name, w.link, w.direction;
END
$$;
COMMENT ON FUNCTION job_links IS
    'Host ports, NVLinks and fabric ports of a job''s nodes between its start and its end: bytes, and the 95th percentile and maximum of the rate and of the share of the link''s own speed. The links carry what else runs on the nodes, too.';
