// What times inside MPI are shares of: one basis on the whole page, the same as in `throughline job show`.
import type { Job } from '../api/client.ts'
import { duration, percent } from '../text.ts'

type Totals = NonNullable<Job['totals']>

/** The time of the ranks; time inside MPI where that of the ranks is not known or threads were inside at the same time. */
export function wholeOf(totals: Totals | null): { seconds: number; name: string } | null {
  if (totals === null) return null
  if (totals.mpi_time_share !== null && totals.observed_seconds !== null) return { seconds: totals.observed_seconds, name: "Of ranks' time" }
  return totals.mpi_seconds > 0 ? { seconds: totals.mpi_seconds, name: 'Of MPI time' } : null
}

/** Time inside MPI in words. Seconds of threads are no share of those of ranks. */
export function inMpi(totals: Totals): string {
  const isThreaded = totals.mpi_time_share === null && (totals.observed_seconds ?? 0) > 0
  if (isThreaded) return `${duration(totals.mpi_seconds)}, summed over threads`
  return totals.mpi_time_share === null ? duration(totals.mpi_seconds) : `${percent(totals.mpi_time_share)} of the ranks' time`
}
