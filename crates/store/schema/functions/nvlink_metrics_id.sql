CREATE OR REPLACE FUNCTION internal.nvlink_metrics_id("time" timestamptz, gpu_id bigint, link integer) RETURNS numeric
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (extract(epoch FROM "time") * 1000000)::bigint * 1099511627776::numeric + gpu_id * 64 + link;
COMMENT ON FUNCTION internal.nvlink_metrics_id IS
    'The id of a row of nvlink_metrics: the reading''s own, and greater for a later one. A GPU has less than 64 links.';
