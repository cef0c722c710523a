CREATE OR REPLACE FUNCTION internal.of_counted(job bigint, query text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = ''
AS $$
DECLARE
    is_contested boolean;
BEGIN
    SELECT EXISTS (SELECT FROM internal.rank_claim x WHERE x.job_id = of_counted.job AND x.contest IS NOT NULL) INTO is_contested;
    RETURN replace(replace(query,
        '{of_counted_rank}', CASE WHEN is_contested THEN ' AND NOT EXISTS (SELECT FROM internal.rank_claim x
            WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.rank = m.rank AND x.node_id = m.node_id)' ELSE '' END),
        '{of_counted_node}', CASE WHEN is_contested THEN ' AND NOT EXISTS (SELECT FROM internal.rank_claim x
            WHERE x.contest IS NOT NULL AND x.job_id = m.job_id AND x.node_id = m.node_id)' ELSE '' END);
END
$$;
COMMENT ON FUNCTION internal.of_counted IS
    'A query over rows m of ranks or nodes of a job, without those that are contested, overruled or barred, where the job has any: {of_counted_rank} and {of_counted_node} in its conditions become that. The sums of a node are left out as soon as one of its ranks is.';
