CREATE OR REPLACE FUNCTION internal.contributor_label(contributor text, operation text, job text, user_name text, name text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE contributor
    WHEN 'job' THEN coalesce(operation || ' of ', '') || 'job ' || coalesce(job, 'that is gone')
        || coalesce(' (' || user_name || ')', '')
    WHEN 'host' THEN 'unmonitored host ' || name
    WHEN 'group' THEN 'unmonitored group ' || name
    WHEN 'other' THEN 'others'
    ELSE 'rest'
END;
COMMENT ON FUNCTION internal.contributor_label IS
    'Who has bytes on a link, as alerts and dashboards write it: of columns of link_shares with the names of its job.';
