CREATE OR REPLACE VIEW public.mpi_peer_totals AS
SELECT j.key AS job_key, j.id AS job_id, t.rank, t.peer, t.kind, internal.stored_total(sum(t.bytes)) AS bytes,
       internal.stored_total(sum(t.messages)) AS messages, max(t.last_time) AS last_time
FROM internal.run_visible j
CROSS JOIN LATERAL internal.mpi_peer_cells(j.id) t
GROUP BY j.key, j.id, t.rank, t.peer, t.kind;
COMMENT ON VIEW public.mpi_peer_totals IS 'Bytes and messages from each rank to each other so far.';
