// Full resolution on demand: what the nodes have of the last ten minutes.
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, type DetailRequests, address, asApiError, part, postJson } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { short } from '../text.ts'

const LAST_SECONDS = 600
const OPEN_MS = 1_000

type DetailRequest = DetailRequests['requests'][number]

/** What became of a request, in a few words. */
export function outcome(request: DetailRequest): string {
  if (request.is_open) return `${short(request.records)} records so far`
  const failed = request.nodes.filter((node) => node.state !== 'done')
  const first = failed.find((node) => node.remark !== null)
  const why = failed.length === 0 ? '' : `; ${failed.length} of ${request.nodes.length} nodes: ${first?.remark ?? failed[0]?.state}`
  return `${short(request.records)} records${why}`
}

export function RecordButton({ job }: { job: string }) {
  const [isSent, setSent] = useState(false)
  const [error, setError] = useState<ApiError>()
  const live = useLive<DetailRequests>(address(`/jobs/${part(job)}/detail`, { limit: 5 }), isSent ? OPEN_MS : undefined)
  const last = live.data?.requests.find((request) => request.reason !== 'live')
  useEffect(() => {
    if (isSent && last !== undefined && !last.is_open) setSent(false)
  }, [isSent, last])
  const send = async () => {
    setError(undefined)
    try {
      await postJson(address(`/jobs/${part(job)}/detail`, { last_seconds: LAST_SECONDS }))
      setSent(true)
      live.again()
    } catch (cause) {
      setError(asApiError(cause))
    }
  }
  return (
    <>
      <button type="button" disabled={isSent} onClick={() => void send()} title="Fetches what the nodes have of it in steps of 100 ms">
        Fetch last 10 min
      </button>
      {error ? (
        <span class="dim" role="alert">
          {error.message}; {error.remedy}
        </span>
      ) : (
        last && (
          <span class="dim" data-testid="recorded">
            {outcome(last)}
          </span>
        )
      )}
    </>
  )
}
