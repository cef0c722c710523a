-- Clocks of the CPUs that ranks run on. Immutable once released: later changes are new files.

ALTER TABLE mpi_rank_scheduling ADD COLUMN cpu_hertz_sum double precision;
ALTER TABLE mpi_rank_scheduling ADD COLUMN cpu_hertz_readings integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN mpi_rank_scheduling.cpu_hertz_sum IS
    'Clocks of the CPU that the rank ran on, summed over the readings in which it ran; NULL where the kernel does not say.';
COMMENT ON COLUMN mpi_rank_scheduling.cpu_hertz_readings IS 'How many readings that is the sum of.';
