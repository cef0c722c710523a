-- What agents do not fold is rows of changed cells: the last row of a cell has its total. There are none unless a node has more cells than
-- an agent folds, so all rows of the job are read.
CREATE OR REPLACE FUNCTION internal.mpi_overflow_cells(job bigint, until timestamptz DEFAULT 'infinity', only_rank integer DEFAULT NULL)
RETURNS TABLE (
    rank integer, operation text, size_class_bytes bigint, region text, algorithm text, algorithm_source text,
    epoch timestamptz, calls bigint, bytes bigint, elapsed_seconds double precision,
    longest_seconds double precision, wait_seconds double precision, received_bytes bigint, last_time timestamptz,
    least_seconds double precision)
LANGUAGE plpgsql STABLE ROWS 10 COST 1000000
-- As in mpi_op_cells.
SET search_path = '' SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    span record;
BEGIN
    SELECT * INTO span FROM internal.job_span(mpi_overflow_cells.job);
    RETURN QUERY EXECUTE internal.of_counted(mpi_overflow_cells.job, $query$
        SELECT DISTINCT ON (m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, m.epoch)
               m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, k.algorithm_source, m.epoch,
               p.calls, p.bytes, p.elapsed_nanoseconds / 1e9::double precision, p.longest_nanoseconds / 1e9::double precision,
               p.wait_nanoseconds / 1e9::double precision, p.received_bytes, m.time, p.least_nanoseconds / 1e9::double precision
        FROM internal.mpi_rank_rows m
        CROSS JOIN LATERAL internal.mpi_packed_cells(m.cells) p
        JOIN internal.mpi_cell_key k ON k.id = p.cell_id
        WHERE m.job_id = $1 AND NOT m.is_folded AND m.time >= $2 AND m.time <= $3 AND ($4 IS NULL OR m.rank = $4){of_counted_rank}
        ORDER BY m.rank, k.operation, k.size_class_bytes, k.region, k.algorithm, m.epoch, m.time DESC
    $query$) USING job, span.since, least(span.ending, until), only_rank;
END
$$;
COMMENT ON FUNCTION internal.mpi_overflow_cells IS
    'Of cells beyond what agents fold the last value of each and epoch, up to a time; of one rank where one is given. They are in no row of mpi_node_rows.';
