// Chooses the job that is laid over the map: one that runs now, or the one that the URL names.
import type { Job } from '../api/client.ts'
import { address } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { jobPath, setQuery } from '../url.ts'

/** Jobs offered; others are laid over the map from their own page. */
const OFFERED = 100

export const jobTitle = (job: Pick<Job, 'job_key' | 'name' | 'user'>) =>
  [job.name ?? job.job_key, job.user === null ? '' : `(${job.user})`].join(' ').trim()

export function JobChoice({ query }: { query: URLSearchParams }) {
  const live = useLive<{ jobs: Job[] }>(address('/jobs', { state: 'live', limit: OFFERED }), 10_000)
  const chosen = query.get('job')
  const jobs = live.data?.jobs ?? []
  const isListed = chosen === null || jobs.some((job) => job.job_key === chosen)
  return (
    <>
      <label>
        Job{' '}
        <select value={chosen ?? ''} onChange={(e) => setQuery({ job: e.currentTarget.value }, true)} data-testid="job">
          <option value="">none</option>
          {!isListed && <option value={chosen}>{chosen}</option>}
          {jobs.map((job) => (
            <option key={job.job_key} value={job.job_key}>
              {jobTitle(job)}
            </option>
          ))}
        </select>
      </label>
      {chosen !== null && <a href={jobPath(chosen)}>open job</a>}
    </>
  )
}
