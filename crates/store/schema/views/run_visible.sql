CREATE OR REPLACE VIEW internal.run_visible AS
SELECT id, key, scheduler, native_id, step, uid, user_name, command, start_time, end_time, world_size, first_seen, name, account, queue,
       array_id, evidence, contested_facts, cluster, key_job, key_uid
FROM internal.run;
COMMENT ON VIEW internal.run_visible IS 'The runs that readers see: all of them. Each view and query of jobs is over it.';
