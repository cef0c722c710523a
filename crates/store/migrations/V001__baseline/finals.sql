-- What stays of a job for as long as the job is known: its totals, when rows of its time are gone.
CREATE TABLE internal.job_final (
    job_id bigint NOT NULL,
    packed_at timestamptz NOT NULL DEFAULT now(),
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    is_released boolean NOT NULL DEFAULT false,
    world_size integer,
    ranks integer NOT NULL,
    rank_starts integer NOT NULL,
    nodes integer NOT NULL,
    lost integer NOT NULL,
    unseen integer NOT NULL,
    silent integer NOT NULL,
    libraries text[] NOT NULL,
    operations text[] NOT NULL,
    cells bit varying NOT NULL,
    unit_nanoseconds bigint NOT NULL DEFAULT 1,
    regions json,
    paths json,
    traffic json,
    pair_kinds text[] NOT NULL,
    pairs bit varying[] NOT NULL,
    PRIMARY KEY (job_id),
    FOREIGN KEY (job_id) REFERENCES internal.run(id)
);
COMMENT ON TABLE internal.job_final IS
    'Final totals of each job that has ended, packed by upkeep once its records are settled and again when late ones come. Readers take them when rows of the job''s time are gone (job_rows_gone); job_node_final has those of ranks.';
COMMENT ON COLUMN internal.job_final.ended_at IS 'run.end_time of what is packed: where they differ it is packed again.';
COMMENT ON COLUMN internal.job_final.is_released IS
    'Rows of rank_claim, mpi_open_call, mpi_rank_scheduling and job_comm are gone: what they had of its ranks is in job_node_final only.';
COMMENT ON COLUMN internal.job_final.world_size IS 'What most of its ranks report; job_node_final has that of others.';
COMMENT ON COLUMN internal.job_final.libraries IS 'MPI libraries of its ranks.';
COMMENT ON COLUMN internal.job_final.operations IS
    'What cells are of: operation, algorithm and the algorithm''s source, separated by tabs.';
COMMENT ON COLUMN internal.job_final.cells IS
    'Operations over all ranks by size class and algorithm, bit-packed: the function job_final_cells has a row for each.';
COMMENT ON COLUMN internal.job_final.unit_nanoseconds IS 'Unit of times in cells: a large job''s sum of nanoseconds has no place in 63 bits.';
COMMENT ON COLUMN internal.job_final.regions IS 'Annotated regions over all ranks, those with the most time; NULL without any.';
COMMENT ON COLUMN internal.job_final.paths IS 'Paths of annotated regions over all ranks, those with the most time; NULL without any.';
COMMENT ON COLUMN internal.job_final.traffic IS 'Of each kind of traffic between ranks the sums, and the pairs of ranks with the most.';
COMMENT ON COLUMN internal.job_final.pair_kinds IS 'Kinds of traffic, as in mpi_rank_peers.';
COMMENT ON COLUMN internal.job_final.pairs IS
    'Of each kind the traffic between nodes, bit-packed: the function job_final_pairs has a row for each of the 10,000 pairs with the most bytes, and one for all others.';

CREATE TABLE internal.job_node_final (
    job_id bigint NOT NULL,
    place integer NOT NULL,
    node_id bigint,
    host text NOT NULL,
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    rank_count integer NOT NULL,
    operations text NOT NULL,
    texts text NOT NULL,
    ranks bit varying NOT NULL,
    places bit varying NOT NULL,
    totals bit varying[] NOT NULL,
    account bit varying,
    PRIMARY KEY (job_id, place),
    FOREIGN KEY (job_id) REFERENCES internal.run(id),
    FOREIGN KEY (node_id) REFERENCES internal.node_key(id)
);
CREATE INDEX job_node_final_of_node ON internal.job_node_final (node_id, ended_at);
COMMENT ON TABLE internal.job_node_final IS
    'Final totals of a job''s ranks on a node, and what rank_claim had of them, bit-packed. The functions job_final_ranks and job_final_operations have a row for each.';
COMMENT ON COLUMN internal.job_node_final.place IS 'Number of the node in the job, from 1, by its first rank: pairs of job_final have it.';
COMMENT ON COLUMN internal.job_node_final.node_id IS 'NULL where the ranks were reported by none.';
COMMENT ON COLUMN internal.job_node_final.rank_count IS 'Ranks in number, each once.';
COMMENT ON COLUMN internal.job_node_final.operations IS 'The operations that its ranks called, a line for each: totals has an element for each.';
COMMENT ON COLUMN internal.job_node_final.texts IS 'Texts that places refers to by number, from 1, a line for each: of lists of GPUs each has its number in gpu_key.';
COMMENT ON COLUMN internal.job_node_final.ranks IS 'Each start of a rank: when, how long, how it ended, and a call in which it was killed.';
COMMENT ON COLUMN internal.job_node_final.places IS 'Of each start of a rank its library, CPUs, GPUs and adapter ports.';
COMMENT ON COLUMN internal.job_node_final.totals IS 'Of each operation the calls, bytes and times of each start of a rank.';
COMMENT ON COLUMN internal.job_node_final.account IS 'Where the time of its ranks went, summed; NULL where that is not known. The function job_final_account has it.';

CREATE TABLE internal.job_final_wanted (
    job_id bigint NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (job_id)
);
COMMENT ON TABLE internal.job_final_wanted IS
    'Jobs whose final totals are packed again: a record of an earlier time came.';
