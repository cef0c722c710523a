CREATE OR REPLACE VIEW internal.rejected_records AS
SELECT sender, reason, sum(records)::bigint AS records, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds,
       min(first_at) AS first_at, max(last_at) AS last_at
FROM internal.record_quarantine WHERE last_at > now() - interval '1 day' GROUP BY sender, reason;
COMMENT ON VIEW internal.rejected_records IS 'Records rejected since yesterday, by sender and reason.';
