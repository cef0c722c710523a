CREATE OR REPLACE FUNCTION internal.job_final_pairs(job bigint)
RETURNS TABLE (
    kind text, from_place integer, to_place integer, from_host text, to_host text, bytes bigint, messages bigint, rank_pairs bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
    SELECT k.kind, p.c1::integer, p.c2::integer, s.host, d.host, p.c3, p.c4, p.c5
    FROM internal.job_final f
    CROSS JOIN LATERAL unnest(f.pair_kinds, f.pairs) k (kind, packed)
    CROSS JOIN LATERAL (SELECT * FROM internal.packed_rows(k.packed) OFFSET 0) p
    LEFT JOIN internal.job_node_final s ON s.job_id = f.job_id AND s.place = p.c1
    LEFT JOIN internal.job_node_final d ON d.job_id = f.job_id AND d.place = p.c2
    WHERE f.job_id = job_final_pairs.job;
END;
COMMENT ON FUNCTION internal.job_final_pairs IS
    'Final traffic of a job between its nodes, by kind: the 10,000 pairs with the most bytes, and one row for all others, whose places are 0. rank_pairs: pairs of ranks in it. Other kinds are other views of the same traffic.';
