-- A row has all cells of a rank, in arrays or bit-packed: the last row of each rank and epoch has its totals. The primary key ends with the time: the next
-- rank or epoch is one step of the index away.
CREATE OR REPLACE FUNCTION mpi_rank_row_cells(job integer, until timestamptz DEFAULT 'infinity', only_rank integer DEFAULT NULL)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10000 COST 1000000
-- As in mpi_bin_cells.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM job_span(mpi_rank_row_cells.job);
    RETURN QUERY EXECUTE $query$
        WITH RECURSIVE newest AS (
            (SELECT m AS line FROM mpi_rank_rows m
             WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4)
             ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
             LIMIT 1)
            UNION ALL
            SELECT n.line FROM newest l CROSS JOIN LATERAL (
                SELECT m AS line FROM mpi_rank_rows m
                WHERE m.job_id = $1 AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4)
                  AND (m.rank, m.epoch) < ((l.line).rank, (l.line).epoch)
                ORDER BY m.rank DESC, m.epoch DESC, m.time DESC
                LIMIT 1) n
        )
        SELECT (line).rank, c.operation, c.size_class_bytes, c.region, c.algorithm, c.algorithm_source, (line).epoch,
               c.calls, c.bytes, c.elapsed / 1e9::double precision, c.longest / 1e9::double precision,
               c.wait / 1e9::double precision, c.received, (line).time, c.least / 1e9::double precision
        FROM newest
        CROSS JOIN LATERAL unnest(
            (line).operations, (line).size_classes_bytes, (line).regions, (line).algorithms, (line).algorithm_sources,
            (line).calls, (line).bytes, (line).elapsed_nanoseconds, (line).longest_nanoseconds, (line).wait_nanoseconds,
            (line).received_bytes, (line).least_nanoseconds)
            c (operation, size_class_bytes, region, algorithm, algorithm_source, calls, bytes, elapsed, longest, wait, received, least)
        UNION ALL
        SELECT (line).rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, (line).epoch,
               p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.longest_nanoseconds / 1e9::double precision,
               p.wait_nanoseconds / 1e9::double precision, p.received_bytes, (line).time, p.least_nanoseconds / 1e9::double precision
        FROM newest
        CROSS JOIN LATERAL mpi_packed_cells((line).cells) p
        JOIN mpi_cell_key k ON k.id = p.cell_id
    $query$ USING job, span.since, least(span.ending, until), only_rank;
END
$$;
COMMENT ON FUNCTION mpi_rank_row_cells IS
    'The cells of the last row of each rank and epoch in mpi_rank_rows of a job, up to a time; of one rank where one is given.';
