CREATE OR REPLACE FUNCTION internal.coverage_rounds(since timestamptz, until timestamptz DEFAULT now())
RETURNS TABLE (
    "time" timestamptz, instance text, source text, expected bigint, read bigint, failed bigint,
    elapsed_seconds double precision, reasons jsonb)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT c.time - (c.time - coalesce(c.first_time, c.time)) * (n.back::double precision / greatest(c.rounds - 1, 1)),
           c.instance, c.source, c.expected, c.read, c.failed, c.elapsed_seconds, c.reasons
    FROM internal.coverage c
    CROSS JOIN LATERAL generate_series(0, c.rounds - 1) n (back)
    -- A row spans at most a minute (throughline_sample::rounds::SPAN_MAX), and where its chunk is thinned five more.
    WHERE c.time > since AND c.time <= until + INTERVAL '6 minutes'
      AND c.time - (c.time - coalesce(c.first_time, c.time)) * (n.back::double precision / greatest(c.rounds - 1, 1)) > since
      AND c.time - (c.time - coalesce(c.first_time, c.time)) * (n.back::double precision / greatest(c.rounds - 1, 1)) <= until;
END;
COMMENT ON FUNCTION internal.coverage_rounds IS
    'Each round of each source in a range of time, also where a row of coverage stands for several: these are as far apart as they '
    'were on average, and each took as long as the slowest.';
