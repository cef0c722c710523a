-- A folded row has all cells of a rank: the last one of each rank and epoch has its totals. The primary key ends with the time: the next
-- rank or epoch is one step of the index away. A cell is in such a row and among those beyond what is folded where there was no place for
-- it at first, or where an agent was replaced while its rank ran: the later one is its total.
CREATE OR REPLACE FUNCTION internal.mpi_op_cells(job bigint, until timestamptz DEFAULT 'infinity', only_rank integer DEFAULT NULL)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- Statistics of a chunk that has just begun are none: without these the planner may sort a job's whole history.
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
    has_overflow boolean;
    -- EXECUTE, so that the times are constants of the plan and chunks outside of them no part of it.
    folded text := $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM internal.mpi_rank_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4) AND m.is_folded{of_counted_rank}
             ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM internal.mpi_rank_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4) AND m.is_folded{of_counted_rank}
                  AND (m.rank, m.epoch) < ((l.line).rank, (l.line).epoch)
                ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        )
        SELECT (line).rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, (line).epoch,
               p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.longest_nanoseconds / 1e9::double precision,
               p.wait_nanoseconds / 1e9::double precision, p.received_bytes, (line).time, p.least_nanoseconds / 1e9::double precision
        FROM newest
        CROSS JOIN LATERAL internal.mpi_packed_cells((line).cells) p
        JOIN internal.mpi_cell_key k ON k.id = p.cell_id
    $query$;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_op_cells.job);
    EXECUTE 'SELECT EXISTS (SELECT FROM internal.mpi_rank_rows m WHERE m.job_id = $1 AND NOT m.is_folded AND m.time >= $2 AND m.time <= $3)'
        INTO has_overflow USING job, span.since, span.ending;
    IF has_overflow THEN
        folded := format('SELECT DISTINCT ON (c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch) c.*
            FROM (SELECT * FROM (%s) f (rank, operation, size_class_bytes, region, algorithm, algorithm_source, epoch, calls, bytes,
                                        elapsed_seconds, longest_seconds, wait_seconds, received_bytes, last_time, least_seconds)
                  UNION ALL SELECT * FROM internal.mpi_overflow_cells($1, $3, $4)) c
            ORDER BY c.rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.epoch, c.last_time DESC, c.calls DESC',
            folded);
    END IF;
    RETURN QUERY EXECUTE internal.of_counted(mpi_op_cells.job, folded) USING job, span.since, least(span.ending, until), only_rank;
END
$$;
COMMENT ON FUNCTION internal.mpi_op_cells IS
    'The last value of each cell and epoch of a job''s operations, up to a time, of one rank where one is given: their sums are the job''s totals as of then.';
