CREATE OR REPLACE VIEW internal.source_coverage AS
SELECT DISTINCT ON (source, instance) source, instance, time, expected, read, failed, elapsed_seconds, reasons
FROM internal.coverage
WHERE time > now() - INTERVAL '1 day'
ORDER BY source, instance, time DESC;
COMMENT ON VIEW internal.source_coverage IS 'The newest round of each source within the last day.';
