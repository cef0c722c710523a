CREATE OR REPLACE FUNCTION internal.packed_job_ranks(
    ranks bit varying, places bit varying, texts text, operations text, libraries text[], world_size integer)
RETURNS TABLE (
    number integer, rank integer, pid bigint, start_time timestamptz, end_time timestamptz, ending text, open_operation text,
    open_nanoseconds bigint, rank_world_size integer, mpi_library text, cpus text, gpu_uuids text[], hca_ports text[],
    numa_nodes integer[], hca_numa_nodes integer[])
-- A session plans it once, as packed_shares.
LANGUAGE plpgsql STABLE ROWS 32
SET search_path = '' SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
DECLARE
    lines text[] := string_to_array(packed_job_ranks.texts, E'\n');
    names text[] := string_to_array(packed_job_ranks.operations, E'\n');
BEGIN
    RETURN QUERY
    SELECT r.number, r.c1::integer, r.c2, internal.packed_time(r.c3), CASE WHEN r.c4 >= 0 THEN internal.packed_time(r.c3 + r.c4) END,
           (ARRAY['clean', 'lost', 'unseen', 'silent'])[r.c5], names[r.c7], r.c6,
           coalesce(r.c8::integer, packed_job_ranks.world_size), packed_job_ranks.libraries[p.c1], lines[p.c2],
           (SELECT coalesce(array_agg(coalesce(k.uuid, u.uuid) ORDER BY u.n), '{}')
            FROM unnest(lines[p.c3]::text[]) WITH ORDINALITY u (uuid, n)
            LEFT JOIN internal.gpu_key k ON k.id = CASE WHEN u.uuid LIKE '#%' THEN substr(u.uuid, 2)::bigint END
            WHERE p.c3 > 0 HAVING p.c3 > 0),
           lines[p.c4]::text[], lines[p.c5]::integer[], lines[p.c6]::integer[]
    FROM (SELECT * FROM internal.packed_rows(packed_job_ranks.ranks) OFFSET 0) r
    JOIN (SELECT * FROM internal.packed_rows(packed_job_ranks.places) OFFSET 0) p USING (number);
END $$;
COMMENT ON FUNCTION internal.packed_job_ranks IS
    'The starts of ranks in a row of job_node_final, by their number in it, from 0. pid is -1 where only totals are known of one.';
