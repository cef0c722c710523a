-- Jobs and their ranks.
CREATE TABLE internal.run (
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    key text NOT NULL,
    scheduler text,
    native_id text,
    step text,
    uid bigint,
    user_name text,
    command text,
    start_time timestamptz,
    end_time timestamptz,
    world_size integer,
    first_seen timestamptz NOT NULL DEFAULT now(),
    name text,
    account text,
    queue text,
    array_id text,
    evidence text,
    contested_facts text[],
    -- Parts of the key, for SQL; its form is throughline_sample::job_key's, and a test compares both.
    cluster text GENERATED ALWAYS AS (substring(key FROM '^slurm:([^:]*):.*@[0-9]{1,10}$')) STORED,
    key_job text GENERATED ALWAYS AS (substring(key FROM '^(?:slurm:[^:]*:|[^:]*:)(.*)@[0-9]{1,10}$')) STORED,
    key_uid text GENERATED ALWAYS AS (substring(key FROM ':.*@([0-9]{1,10})$')) STORED,
    PRIMARY KEY (id),
    UNIQUE (key)
);
CREATE INDEX run_native ON internal.run (native_id) WHERE (native_id IS NOT NULL);
CREATE INDEX run_unended ON internal.run (id) WHERE (end_time IS NULL);
CREATE INDEX run_ended ON internal.run (end_time DESC, id DESC) WHERE (end_time IS NOT NULL);
COMMENT ON TABLE internal.run IS
    'Jobs and job steps: what is shown of each. run_claim has what each node says of it, run_alias by which names it is known.';
COMMENT ON COLUMN internal.run.key IS
    'The name that it is shown by: scheduler:[cluster:]id[.step]@uid, or local:...@uid without a scheduler; the same on every node of the job.';
COMMENT ON COLUMN internal.run.native_id IS
    'The scheduler''s own id. A requeued job of Slurm has the same one in each of its runs.';
COMMENT ON COLUMN internal.run.cluster IS 'The Slurm cluster in its key, NULL where it is not known and with other schedulers.';
COMMENT ON COLUMN internal.run.key_job IS 'The id and step in its key; since Slurm 26.05 the SLUID of the run, and native_id has the number.';
COMMENT ON COLUMN internal.run.key_uid IS 'The user in its key, by the kernel''s word.';
COMMENT ON COLUMN internal.run.end_time IS 'When the last of its ranks ended; NULL while one runs, wherever.';
COMMENT ON COLUMN internal.run.account IS 'Account or project, as the scheduler''s variables name it.';
COMMENT ON COLUMN internal.run.queue IS 'Partition of Slurm, queue of others.';
COMMENT ON COLUMN internal.run.array_id IS 'Array and number in it, as the scheduler writes them, NULL for a job of its own.';
COMMENT ON COLUMN internal.run.evidence IS
    'What says that the ranks are in this job: cgroup (the kernel), environment (only their own word), launcher or process (no scheduler). The user is always the kernel''s word.';
COMMENT ON COLUMN internal.run.contested_facts IS
    'Columns of it that are NULL because its nodes disagree about them: run_claim has what each says.';

CREATE TABLE internal.run_alias (
    key text NOT NULL,
    job_id bigint NOT NULL,
    first_seen timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (key),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);
CREATE INDEX run_alias_of_run ON internal.run_alias (job_id);
COMMENT ON TABLE internal.run_alias IS
    'Natural keys of schedulers and launchers by which senders name a run. Another name of a run is another row, and changes no other table.';

CREATE TABLE internal.run_claim (
    job_id bigint NOT NULL,
    node_id bigint NOT NULL,
    scheduler text,
    native_id text,
    step text,
    uid bigint,
    user_name text,
    command text,
    start_time timestamptz,
    end_time timestamptz,
    world_size integer,
    name text,
    account text,
    queue text,
    array_id text,
    evidence text,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    is_excluded boolean NOT NULL DEFAULT false,
    has_ranks boolean NOT NULL DEFAULT false,
    judge_after timestamptz DEFAULT now(),
    was_judged boolean NOT NULL DEFAULT false,
    folded_until timestamptz,
    PRIMARY KEY (job_id, node_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX run_claim_unended ON internal.run_claim (node_id) WHERE (end_time IS NULL);
CREATE INDEX run_claim_world ON internal.run_claim (job_id, world_size) WHERE (has_ranks);
CREATE INDEX run_claim_turn ON internal.run_claim (node_id, coalesce(uid, -1), was_judged, judge_after, job_id) WHERE (judge_after IS NOT NULL);
COMMENT ON TABLE internal.run_claim IS
    'What each node said of a run last: agents do once a minute while ranks of it run there. Columns as in run; NULL where the node says nothing.';
COMMENT ON COLUMN internal.run_claim.last_seen IS 'When ranks were last known to run there, by the node''s clock.';
COMMENT ON COLUMN internal.run_claim.reported_at IS 'When that was stored, by the database''s clock.';
COMMENT ON COLUMN internal.run_claim.is_excluded IS 'The node is barred, or its claims of ranks of the run are overruled: nothing that it says of the run counts.';
COMMENT ON COLUMN internal.run_claim.has_ranks IS 'The node reports ranks of it. What others say of a run does not count beside what these say.';
COMMENT ON COLUMN internal.run_claim.judge_after IS 'From when on the job waits for its next verdict in the turn of this node; NULL after the last one.';
COMMENT ON COLUMN internal.run_claim.folded_until IS
    'Up to when mpi_node_rows has all that the node counted of the run: its agent reports that each ten seconds, also when nothing was called. By the node''s clock.';
COMMENT ON COLUMN internal.run_claim.was_judged IS 'Whether the job had a verdict already; jobs that had none come first in the turn.';

CREATE TABLE internal.rank_claim (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint,
    host text NOT NULL,
    pid bigint NOT NULL,
    world_size integer NOT NULL,
    mpi_library text NOT NULL,
    start_time timestamptz NOT NULL,
    end_time timestamptz,
    ending text,
    gpu_evidence text,
    visible_devices text,
    hca_ports text[],
    cpus text,
    numa_nodes integer[],
    hca_numa_nodes integer[],
    contest text,
    UNIQUE NULLS NOT DISTINCT (job_id, rank, node_id, start_time),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id),
    CHECK (contest IN ('contested', 'overruled', 'barred'))
);
CREATE INDEX rank_claim_of_node ON internal.rank_claim (node_id, start_time);
CREATE INDEX rank_claim_running ON internal.rank_claim (job_id) WHERE (end_time IS NULL);
CREATE INDEX rank_claim_failed ON internal.rank_claim (job_id) WHERE (ending IN ('lost', 'silent'));
CREATE INDEX rank_claim_excluded ON internal.rank_claim (job_id, rank, node_id) WHERE (contest IS NOT NULL);
CREATE INDEX rank_claim_overruled ON internal.rank_claim (node_id, contest) WHERE (contest IN ('overruled', 'barred'));
COMMENT ON TABLE internal.rank_claim IS
    'What each node says of the ranks that it runs. The view job_rank has those that count.';
COMMENT ON COLUMN internal.rank_claim.node_id IS 'The node that reports it.';
COMMENT ON COLUMN internal.rank_claim.contest IS
    'NULL: it counts. contested: another node says that it runs this rank at that time, and it is not known which one does; neither counts. overruled: what other nodes report of the job, or of others that this node claims, is against it. barred: the node is (node_bar).';
COMMENT ON COLUMN internal.rank_claim.start_time IS 'When MPI_Init ended. A rank that connects anew has the same.';
COMMENT ON COLUMN internal.rank_claim.ending IS
    'clean: MPI_Finalize was seen. lost: the process or its connection ended without it. unseen: it ended while no agent ran on its node, and end_time is when it was last known to run. silent: its node reports nothing any more, and end_time is when it last did; taken back when it does again. NULL while the rank runs.';
COMMENT ON COLUMN internal.rank_claim.gpu_evidence IS
    'By what the GPUs that it uses are known, which are the rows of rank_gpu with that evidence: driver, or device where the driver''s list of processes could not be read. NULL: they are not known.';
COMMENT ON COLUMN internal.rank_claim.visible_devices IS 'CUDA_VISIBLE_DEVICES as it was at MPI_Init; NULL where it was not set.';
COMMENT ON COLUMN internal.rank_claim.hca_ports IS
    'DEVICE/PORT of the host''s adapters on which its process has queue pairs, the one with most first; NULL where not known.';
COMMENT ON COLUMN internal.rank_claim.cpus IS 'CPUs that it might run on when it connected, as the kernel writes a list.';
COMMENT ON COLUMN internal.rank_claim.numa_nodes IS 'NUMA nodes of these CPUs.';
COMMENT ON COLUMN internal.rank_claim.hca_numa_nodes IS
    'NUMA nodes of the adapters that it used, or of all adapters of its host where these are not known; NULL where sysfs does not say.';

CREATE TABLE internal.rank_gpu (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint NOT NULL,
    start_time timestamptz NOT NULL,
    gpu_id bigint NOT NULL,
    partition_id bigint,
    evidence text NOT NULL,
    minor integer,
    nearest_distance text,
    has_others boolean NOT NULL DEFAULT false,
    first_seen timestamptz NOT NULL,
    last_seen timestamptz,
    UNIQUE NULLS NOT DISTINCT (job_id, rank, node_id, start_time, gpu_id, partition_id, evidence),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id),
    FOREIGN KEY (gpu_id) REFERENCES internal.gpu_key(id),
    FOREIGN KEY (partition_id) REFERENCES internal.gpu_key(id),
    CHECK (evidence IN ('driver', 'device', 'visible'))
);
CREATE INDEX rank_gpu_of_gpu ON internal.rank_gpu (gpu_id, first_seen);
COMMENT ON TABLE internal.rank_gpu IS
    'GPUs that the ranks of rank_claim have to do with: one row for each kind of evidence. The view job_rank_gpus has them by name, with the nearest port.';
COMMENT ON COLUMN internal.rank_gpu.node_id IS 'The node that reports it: rank_claim.node_id.';
COMMENT ON COLUMN internal.rank_gpu.start_time IS 'rank_claim.start_time.';
COMMENT ON COLUMN internal.rank_gpu.gpu_id IS 'The whole GPU.';
COMMENT ON COLUMN internal.rank_gpu.partition_id IS 'The partition of it (MIG); NULL for the whole.';
COMMENT ON COLUMN internal.rank_gpu.evidence IS
    'driver: the driver lists the rank''s process there. device: it has the GPU''s device file open. visible: CUDA_VISIBLE_DEVICES names it by UUID, so that it may use it.';
COMMENT ON COLUMN internal.rank_gpu.minor IS 'N of the device file /dev/nvidiaN, of a partition that of its GPU; NULL where it is not known.';
COMMENT ON COLUMN internal.rank_gpu.nearest_distance IS
    'How far gpu.nearest_hcas are from it: switch (PIX), switches (PXB), host_bridge (PHB), numa_node (NODE) or system (SYS); NULL where that is not known.';
COMMENT ON COLUMN internal.rank_gpu.has_others IS
    'While the rank was there, the driver listed processes on the GPU, or on a partition of it, that are no ranks of the job.';
COMMENT ON COLUMN internal.rank_gpu.first_seen IS 'The first look at which it was so: looks are 2 s to 5 minutes apart.';
COMMENT ON COLUMN internal.rank_gpu.last_seen IS 'The last such look; NULL while it is so.';

CREATE TABLE internal.job_comm (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    library text NOT NULL DEFAULT 'mpi',
    comm integer NOT NULL,
    name text NOT NULL,
    size integer NOT NULL,
    rank_in_comm integer,
    named_at timestamptz NOT NULL,
    PRIMARY KEY (job_id, rank, epoch, library, comm),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);
COMMENT ON TABLE internal.job_comm IS
    'Communicators that a program gave a name (MPI_Comm_set_name), as each of their ranks sees them.';
COMMENT ON COLUMN internal.job_comm.comm IS 'The rank''s own number of the communicator; other ranks number theirs otherwise.';
COMMENT ON COLUMN internal.job_comm.rank_in_comm IS 'NULL in an intercommunicator, whose size is that of the remote group.';

CREATE TABLE internal.job_setting (
    job_id bigint NOT NULL,
    node_id bigint,
    name text NOT NULL,
    value text NOT NULL,
    rank integer NOT NULL,
    told_at timestamptz NOT NULL,
    UNIQUE NULLS NOT DISTINCT (job_id, name, value, node_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);
COMMENT ON TABLE internal.job_setting IS
    'Control variables (MPI_T CVARs) of a job''s MPI library that decide algorithms: one row for each node and value that any rank of it has.';
COMMENT ON COLUMN internal.job_setting.rank IS 'A rank that has it: the first of the node that reported it.';

CREATE TABLE internal.job_judgement (
    job_id bigint NOT NULL,
    judged_at timestamptz NOT NULL,
    is_final boolean NOT NULL,
    report text,
    node_id bigint,
    uid bigint,
    detail_after timestamptz,
    is_brief boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
) WITH (fillfactor=70);
CREATE INDEX job_judgement_detail_turn ON internal.job_judgement (node_id, uid, is_brief, detail_after, job_id) WHERE (detail_after IS NOT NULL);
COMMENT ON TABLE internal.job_judgement IS
    'When each job was judged last: each minute while it runs, and once after its end.';
COMMENT ON COLUMN internal.job_judgement.is_final IS 'After its end, with all that its nodes and the fabric reported.';
COMMENT ON COLUMN internal.job_judgement.report IS 'What throughline job report prints; NULL until it is final.';
COMMENT ON COLUMN internal.job_judgement.node_id IS 'The node in whose turn it was judged: one of those that report the job.';
COMMENT ON COLUMN internal.job_judgement.uid IS 'The owner in whose turn it was judged, as that node reports; -1 where it does not.';
COMMENT ON COLUMN internal.job_judgement.detail_after IS 'From when on the server requests detail of the job by itself, in the same turn; NULL where it need not.';
COMMENT ON COLUMN internal.job_judgement.is_brief IS 'It ran for less than a minute: detail of others is requested first.';

CREATE TABLE internal.job_verdict (
    job_id bigint NOT NULL,
    kind text NOT NULL,
    subject text NOT NULL,
    first_at timestamptz NOT NULL,
    last_at timestamptz NOT NULL,
    place smallint NOT NULL,
    observation text NOT NULL,
    remedy text NOT NULL,
    confidence text NOT NULL,
    cost double precision,
    other_job text,
    facts jsonb NOT NULL,
    PRIMARY KEY (job_id, kind, subject),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    CHECK (confidence IN ('certain', 'likely'))
) WITH (fillfactor=70);
COMMENT ON TABLE internal.job_verdict IS
    'What slows a job down: docs/VERDICTS.md. One that is true now has the last_at of its job''s judged_at; others were true once.';
COMMENT ON COLUMN internal.job_verdict.kind IS 'hung, link_bound, victim and so on.';
COMMENT ON COLUMN internal.job_verdict.subject IS 'The rank, host, link, operation or region; job where it is about all of it.';
COMMENT ON COLUMN internal.job_verdict.first_at IS 'When it was said first.';
COMMENT ON COLUMN internal.job_verdict.last_at IS 'When it was said last.';
COMMENT ON COLUMN internal.job_verdict.place IS 'Among those said at the same time, the most important one first, from 0.';
COMMENT ON COLUMN internal.job_verdict.observation IS 'What was observed, with its figures.';
COMMENT ON COLUMN internal.job_verdict.remedy IS 'What to do.';
COMMENT ON COLUMN internal.job_verdict.cost IS 'Part of the ranks'' time that it costs, at most 1; NULL where it can''t be said.';
COMMENT ON COLUMN internal.job_verdict.other_job IS 'Key of the other job: whose bytes hold it up, or whom it holds up.';
COMMENT ON COLUMN internal.job_verdict.facts IS 'Figures that it rests on: name, value, unit and the threshold from which on it is said.';

CREATE TABLE internal.report_post (
    job_id bigint NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT now(),
    state text NOT NULL DEFAULT 'waiting',
    tries integer NOT NULL DEFAULT 0,
    next_try timestamptz NOT NULL DEFAULT now(),
    error text,
    node_id bigint NOT NULL,
    uid bigint NOT NULL,
    PRIMARY KEY (job_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    CHECK (state IN ('waiting', 'failed'))
);
CREATE INDEX report_post_turn ON internal.report_post (node_id, uid, next_try, job_id) WHERE (state = 'waiting');
COMMENT ON TABLE internal.report_post IS
    'Reports (job_judgement.report) that the address of [report] webhook has not taken. One that it took has no row.';
COMMENT ON COLUMN internal.report_post.id IS
    'Sent with the report (Throughline-Report-Id): the same each time, so that a receiver knows one that comes twice.';
COMMENT ON COLUMN internal.report_post.state IS
    'waiting: is posted at next_try. failed: was refused, or not taken within a day, and is not posted again.';
COMMENT ON COLUMN internal.report_post.tries IS 'How often it was posted in vain.';
COMMENT ON COLUMN internal.report_post.error IS 'Why the last try failed.';
COMMENT ON COLUMN internal.report_post.node_id IS 'The node in whose turn it is posted, as in job_judgement.';
COMMENT ON COLUMN internal.report_post.uid IS 'The owner in whose turn it is posted, as in job_judgement.';

CREATE TABLE internal.mpi_open_call (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    node_id bigint,
    library text NOT NULL DEFAULT 'mpi',
    thread integer NOT NULL,
    epoch timestamptz NOT NULL,
    operation text NOT NULL,
    start_time timestamptz NOT NULL,
    reported_at timestamptz NOT NULL,
    has_returned boolean NOT NULL,
    is_on_world boolean NOT NULL,
    comm integer,
    comm_size integer,
    peer integer,
    pending_requests integer NOT NULL,
    oldest_request text,
    tag integer,
    is_from_any boolean NOT NULL,
    requests integer NOT NULL,
    oldest_peer integer,
    oldest_tag integer,
    threads_elsewhere integer NOT NULL,
    threads_to_come integer NOT NULL,
    is_counted boolean NOT NULL GENERATED ALWAYS AS (operation LIKE 'test%' OR operation LIKE 'i%probe') STORED,
    UNIQUE NULLS NOT DISTINCT (job_id, rank, library, thread, node_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
) WITH (fillfactor=50);
CREATE INDEX mpi_open_call_open ON internal.mpi_open_call (job_id) WHERE NOT has_returned;
COMMENT ON TABLE internal.mpi_open_call IS
    'The last MPI call of each thread that went on for half a second or more, as reported last. The view mpi_open_calls has those that go on, or in which their rank was killed.';
COMMENT ON COLUMN internal.mpi_open_call.thread IS 'The rank''s own number of the thread.';
COMMENT ON COLUMN internal.mpi_open_call.epoch IS 'When the rank''s MPI_Init ended: job_rank.start_time.';
COMMENT ON COLUMN internal.mpi_open_call.operation IS 'MPI name without the prefix, in lower case.';
COMMENT ON COLUMN internal.mpi_open_call.reported_at IS
    'When the rank reported it last; of a call that goes on it is behind by at most 2 % of the call''s age and a second, and 10 s.';
COMMENT ON COLUMN internal.mpi_open_call.has_returned IS 'It is over, and counted as other calls are.';
COMMENT ON COLUMN internal.mpi_open_call.is_on_world IS 'It is on MPI_COMM_WORLD.';
COMMENT ON COLUMN internal.mpi_open_call.comm IS 'job_comm.comm of the communicator; NULL where it has no name.';
COMMENT ON COLUMN internal.mpi_open_call.comm_size IS 'Members that can be addressed; NULL where they are not known.';
COMMENT ON COLUMN internal.mpi_open_call.peer IS 'Rank in MPI_COMM_WORLD that the call names: destination, source or root.';
COMMENT ON COLUMN internal.mpi_open_call.pending_requests IS 'Requests of the thread that are pending, and active persistent ones of the rank.';
COMMENT ON COLUMN internal.mpi_open_call.oldest_request IS
    'The operation that began the request that it waits for, of several the oldest pending one of the thread.';
COMMENT ON COLUMN internal.mpi_open_call.tag IS 'Tag of its message; NULL: any, or it has none.';
COMMENT ON COLUMN internal.mpi_open_call.is_from_any IS 'It takes a message of any source.';
COMMENT ON COLUMN internal.mpi_open_call.requests IS 'Requests that it waits for or tests.';
COMMENT ON COLUMN internal.mpi_open_call.oldest_peer IS 'Rank in MPI_COMM_WORLD that the oldest request names.';
COMMENT ON COLUMN internal.mpi_open_call.is_counted IS
    'A row of tests or probes that found nothing: each of them has returned, and its time is counted.';
COMMENT ON COLUMN internal.mpi_open_call.threads_elsewhere IS 'Threads of the rank that have called MPI and are in no call of this table that goes on.';
COMMENT ON COLUMN internal.mpi_open_call.threads_to_come IS
    'Threads of the rank that were started since MPI_Init, have not called MPI, and may: MPI_THREAD_SERIALIZED and above.';
COMMENT ON COLUMN internal.mpi_open_call.oldest_tag IS 'Tag that the oldest request names; NULL: any, or it has none.';

CREATE TABLE internal.mpi_rank_scheduling (
    job_id bigint NOT NULL,
    rank integer NOT NULL,
    epoch timestamptz NOT NULL,
    first_time timestamptz NOT NULL,
    first_cpu_nanoseconds bigint,
    first_runqueue_wait_nanoseconds bigint,
    first_involuntary_switches bigint,
    time timestamptz NOT NULL,
    cpu_nanoseconds bigint,
    runqueue_wait_nanoseconds bigint,
    involuntary_switches bigint,
    before_time timestamptz,
    before_cpu_nanoseconds bigint,
    cpu_hertz_sum double precision,
    cpu_hertz_readings integer NOT NULL DEFAULT 0,
    elapsed_nanoseconds bigint,
    mpi_nanoseconds bigint,
    off_outside_nanoseconds bigint,
    queued_outside_nanoseconds bigint,
    off_inside_nanoseconds bigint,
    queued_inside_nanoseconds bigint,
    file_samples integer,
    sleep_samples integer,
    lock_samples integer,
    stopped_samples integer,
    other_samples integer,
    stopped_since timestamptz,
    throttled_nanoseconds bigint,
    PRIMARY KEY (job_id, rank, epoch),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
) WITH (fillfactor=50);
COMMENT ON TABLE internal.mpi_rank_scheduling IS
    'What the kernel counted of each rank''s process: its first reading, the newest one and the one before. Cumulative since the start of the process; NULL where the kernel does not say. And where the time of the thread went that called MPI_Init, from there to the newest reading.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.epoch IS 'When the rank''s MPI_Init ended: job_rank.start_time.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.first_time IS 'Of the first reading, just after MPI_Init.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.cpu_nanoseconds IS 'Processor time of all threads.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.runqueue_wait_nanoseconds IS 'Time that the thread that called MPI_Init could have run and waited for a processor.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.involuntary_switches IS 'How often that thread was taken off its processor.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.before_time IS 'Of the reading before the newest, some 10 s earlier.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.cpu_hertz_sum IS
    'Clocks of the CPU that the rank ran on, summed over the readings in which it ran; NULL where the kernel does not say.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.cpu_hertz_readings IS 'How many readings that is the sum of.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.elapsed_nanoseconds IS
    'From the end of MPI_Init to the newest reading; NULL, as what follows, where the rank does not report its account.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.mpi_nanoseconds IS 'In MPI.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.off_outside_nanoseconds IS 'Off the processor outside of MPI.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.queued_outside_nanoseconds IS 'The part of it in which the thread could have run.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.off_inside_nanoseconds IS 'Off the processor in MPI.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.queued_inside_nanoseconds IS 'The part of it in which the thread could have run.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.file_samples IS
    'How often the thread was found off the processor outside of MPI, in a file; looked at each second. The others are like it.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.throttled_nanoseconds IS
    'The least that the CPU quota of a control group kept the thread from running, in MPI and outside of it; NULL where none of its groups has a quota.';
COMMENT ON COLUMN internal.mpi_rank_scheduling.stopped_since IS 'By a signal, at the newest reading; NULL where it is not stopped.';
