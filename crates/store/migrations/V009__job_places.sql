-- Jobs: what schedulers tell beside the id, where ranks run, and when each node last spoke of a job, so that
-- one whose node died ends. Immutable once released: later changes are new files.

ALTER TABLE job ADD COLUMN name text, ADD COLUMN account text, ADD COLUMN queue text, ADD COLUMN array_id text,
    ADD COLUMN evidence text;
COMMENT ON COLUMN job.key IS
    'scheduler:id[.step]@uid, or local:...@uid without a scheduler; the same on every node of the job.';
COMMENT ON COLUMN job.end_time IS 'When the last of its ranks ended; NULL while one runs, wherever.';
COMMENT ON COLUMN job.account IS 'Account or project, as the scheduler''s variables name it.';
COMMENT ON COLUMN job.queue IS 'Partition of Slurm, queue of others.';
COMMENT ON COLUMN job.array_id IS 'Array and number in it, as the scheduler writes them, NULL for a job of its own.';
COMMENT ON COLUMN job.evidence IS
    'What says that the ranks are in this job: cgroup (the kernel), environment (only their own word), launcher or '
    'process (no scheduler). The user is always the kernel''s word.';
CREATE INDEX job_running ON job (id) WHERE end_time IS NULL;
CREATE INDEX job_native ON job (native_id) WHERE native_id IS NOT NULL;

ALTER TABLE job_rank ADD COLUMN gpu_uuids text[], ADD COLUMN hca_ports text[], ADD COLUMN cpus text,
    ADD COLUMN numa_nodes integer[];
COMMENT ON COLUMN job_rank.start_time IS 'When MPI_Init ended. A rank that connects anew has the same.';
COMMENT ON COLUMN job_rank.ending IS
    'clean: MPI_Finalize was seen. lost: the process or its connection ended without it. unseen: it ended while no '
    'agent ran on its node, and end_time is when it was last known to run. silent: its node reports nothing any '
    'more, and end_time is when it last did; taken back when it does again. NULL while the rank runs.';
COMMENT ON COLUMN job_rank.gpu_uuids IS
    'GPUs that its process has used, by the driver''s list of processes; NULL where not known, {} for none.';
COMMENT ON COLUMN job_rank.hca_ports IS
    'DEVICE/PORT of the host''s adapters on which its process has queue pairs, the one with most first; NULL where '
    'not known.';
COMMENT ON COLUMN job_rank.cpus IS 'CPUs that it might run on when it connected, as the kernel writes a list.';
COMMENT ON COLUMN job_rank.numa_nodes IS 'NUMA nodes of these CPUs.';
CREATE INDEX job_rank_running ON job_rank (job_id) WHERE end_time IS NULL;

CREATE TABLE job_node (
    job_id integer NOT NULL REFERENCES job,
    node_id integer NOT NULL REFERENCES node_key,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id, node_id)
);
COMMENT ON TABLE job_node IS 'When each node spoke of a job: agents do once a minute while ranks of it run there.';
COMMENT ON COLUMN job_node.last_seen IS 'When ranks were last known to run there, by the node''s clock.';
COMMENT ON COLUMN job_node.reported_at IS 'When that was stored, by the database''s clock.';

CREATE VIEW job_rank_ports AS
SELECT j.key AS job_key, r.job_id, r.rank, r.start_time, r.end_time, r.node_id, k.name AS node_name, r.gpu_uuids,
       r.cpus, r.numa_nodes, h.id AS host_port_id, h.device, h.port, h.guid,
       r.hca_ports IS NOT NULL AS is_exact,
       p.id AS port_id, b.port_guid, b.lid, b.rate_bytes_per_second, b.remote_port_id,
       s.guid AS remote_guid, q.port AS remote_port, s.description AS remote_description
FROM job_rank r
JOIN job j ON j.id = r.job_id
LEFT JOIN node_key k ON k.id = r.node_id
LEFT JOIN host_port_key h ON h.node_id = r.node_id
    AND (r.hca_ports IS NULL OR h.device || '/' || h.port = ANY (r.hca_ports))
LEFT JOIN ib_node_key g ON g.guid = h.guid
LEFT JOIN ib_port_key p ON p.ib_node_id = g.id AND p.port = h.port
LEFT JOIN ib_port b ON b.port_id = p.id AND b.valid_from <= coalesce(r.end_time, now())
    AND (b.valid_to IS NULL OR b.valid_to > coalesce(r.end_time, now()))
LEFT JOIN ib_port_key q ON q.id = b.remote_port_id
LEFT JOIN ib_node s ON s.ib_node_id = q.ib_node_id AND s.valid_to IS NULL;
COMMENT ON VIEW job_rank_ports IS
    'The way from a rank to its links: one row for each adapter port that it used, with the port of the fabric and '
    'the switch port at the other end of the cable, as they were when the rank ended. is_exact is false where the '
    'ports of a rank are not known: then every port of its node is listed.';
