// The live request of a job that somebody looks at: its nodes then send figures of each second. All who look share one request.
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, type JobLive, address, asApiError, part, postJson } from '../api/client.ts'
import { clock, counted } from '../text.ts'

/** A request holds for three times as long. */
const RENEW_MS = 6_000
/** Nodes without figures that are named. */
const NAMED = 3

/** What is to be said of a job whose figures are not of now; null where they are. */
export function liveNote(live: JobLive | undefined, error: ApiError | undefined): string | null {
  if (error !== undefined) return `Figures are the stored ones, not those of now: ${error.message}; ${error.remedy}.`
  if (live === undefined || live.has_ended || live.absent_nodes === 0) return null
  if (live.as_of_ms === null) return 'No node of the job has sent figures of now yet: these are the stored ones.'
  const named = live.absent.slice(0, NAMED).map(({ node, time_ms }) => `${node} (${time_ms === null ? 'nothing yet' : `as of ${clock(time_ms)}`})`)
  if (live.absent_nodes > named.length) named.push(`${live.absent_nodes - named.length} more`)
  return `${live.absent_nodes} of ${counted(live.nodes, 'node')} do not answer now, and have their newest figures in the sums: ${named.join(', ')}.`
}

/** Keeps a running job's rows coming each second while somebody looks at it, and says where they do not come. */
export function LiveNote({ job, isLive }: { job: string; isLive: boolean }) {
  const [live, setLive] = useState<JobLive>()
  const [error, setError] = useState<ApiError>()
  useEffect(() => {
    if (!isLive) return undefined
    let isOpen = true
    const renew = (isFirst: boolean) => {
      if (document.hidden) return
      postJson<JobLive>(address(`/jobs/${part(job)}/live`)).then(
        (now) => {
          if (!isOpen) return
          // The first one has what was there before.
          setLive(isFirst ? undefined : now)
          setError(undefined)
        },
        (cause: unknown) => isOpen && setError(asApiError(cause)),
      )
    }
    renew(true)
    const soon = setTimeout(() => renew(false), 3_000)
    const timer = setInterval(() => renew(false), RENEW_MS)
    return () => {
      isOpen = false
      clearTimeout(soon)
      clearInterval(timer)
    }
  }, [job, isLive])
  const note = isLive ? liveNote(live, error) : null
  return note === null ? null : (
    <p class="dim" role="status" data-testid="live-note">
      {note}
    </p>
  )
}
