CREATE OR REPLACE FUNCTION internal.instance_name(instance text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE WHEN instance_name.instance LIKE 'fabric:%'
        THEN coalesce((SELECT f.name FROM internal.fabric f WHERE 'fabric:' || f.id = instance_name.instance), instance_name.instance)
        ELSE instance_name.instance END;
END;
COMMENT ON FUNCTION internal.instance_name IS
    'Who reported, for people: a node, or a fabric by its name now. Rows of crawlers have fabric: and the id of the fabric.';
