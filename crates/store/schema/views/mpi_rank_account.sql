-- Of each rank's last start. What of the time in MPI was waiting is not in it: that is estimated for the API.
CREATE OR REPLACE VIEW public.mpi_rank_account AS
SELECT DISTINCT ON (r.job_id, r.rank) j.key AS job_key, r.job_id, r.rank, r.host, s.time,
       s.elapsed_nanoseconds / 1e9::double precision AS elapsed_seconds,
       (s.elapsed_nanoseconds - s.mpi_nanoseconds - s.off_outside_nanoseconds) / 1e9::double precision AS computing_seconds,
       s.queued_outside_nanoseconds / 1e9::double precision AS core_wait_seconds,
       (s.off_outside_nanoseconds - s.queued_outside_nanoseconds) / 1e9::double precision AS off_processor_seconds,
       s.mpi_nanoseconds / 1e9::double precision AS mpi_seconds,
       s.off_inside_nanoseconds / 1e9::double precision AS off_processor_in_mpi_seconds,
       s.queued_inside_nanoseconds / 1e9::double precision AS core_wait_in_mpi_seconds,
       s.throttled_nanoseconds / 1e9::double precision AS throttled_seconds
FROM internal.run_visible j
JOIN internal.job_rank r ON r.job_id = j.id
JOIN internal.mpi_rank_scheduling s ON s.job_id = r.job_id AND s.rank = r.rank AND s.epoch = r.start_time
WHERE s.elapsed_nanoseconds IS NOT NULL
ORDER BY r.job_id, r.rank, r.start_time DESC;
COMMENT ON VIEW public.mpi_rank_account IS
    'Where the time of the thread went that called MPI_Init, from the end of that until `time`: computing, waiting for a core and off the processor outside of MPI, and in MPI; they add up to elapsed_seconds. Of the waits for a core a CPU quota makes throttled_seconds, at least. docs/ACCOUNT.md.';
