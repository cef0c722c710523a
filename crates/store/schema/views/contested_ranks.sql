CREATE OR REPLACE VIEW public.contested_ranks AS
SELECT j.key AS job_key, r.job_id, r.rank, k.name AS node_name, coalesce(r.contest, 'counted') AS state, r.start_time, r.end_time,
       t.calls, t.bytes
FROM (SELECT DISTINCT job_id, rank FROM internal.rank_claim WHERE contest IS NOT NULL) e
JOIN internal.rank_claim r USING (job_id, rank)
JOIN internal.run_visible j ON j.id = r.job_id
JOIN internal.node_key k ON k.id = r.node_id
LEFT JOIN LATERAL (
    SELECT internal.stored_total(sum(p.calls)) AS calls, internal.stored_total(sum(p.bytes)) AS bytes
    FROM internal.rank_newest_cells(r.job_id, r.rank, r.node_id, r.start_time) newest
    CROSS JOIN LATERAL internal.mpi_packed_cells(newest.cells) p) t ON true;
COMMENT ON VIEW public.contested_ranks IS
    'Ranks that several nodes say they run, as each of them reports them. state: counted; contested: none counts until it is known which node runs it; overruled: other reports are against it; barred: its node is.';
