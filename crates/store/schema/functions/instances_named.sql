CREATE OR REPLACE FUNCTION internal.instances_named(name text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT ARRAY[instances_named.name] || ARRAY(SELECT 'fabric:' || f.id FROM internal.fabric f WHERE f.name = instances_named.name);
END;
COMMENT ON FUNCTION internal.instances_named IS
    'What instance is in rows of the node or fabric of this name: the other way round of instance_name.';
