// Full resolution on demand: what the nodes have of the last ten minutes.
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, type DetailRequests, address, asApiError, fetchJson, part, postJson } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { short } from '../text.ts'

const LAST_SECONDS = 600
const OPEN_MS = 1_000

/** Nodes have an hour; a request takes a moment. */
const RECORDED_MS = 3_570_000
/** A longer range has steps of seconds: it is fetched where somebody looks at a part of it. */
const RANGE_MOST_MS = 600_000
/** A row of a rank before the range: what its first bins have more than that is known. */
const ROW_MS = 65_000
const BIN_MS = 100
const PATIENCE_MS = 60_000
/** What nodes refuse is not requested again at once. */
const AGAIN_MS = 600_000
const EARLIER = 20

type DetailRequest = DetailRequests['requests'][number]

/** What became of a request, in a few words. */
export function outcome(request: DetailRequest): string {
  if (request.is_open) return `${short(request.records)} records so far`
  const failed = request.nodes.filter((node) => node.state !== 'done')
  const first = failed.find((node) => node.remark !== null)
  const why = failed.length === 0 ? '' : `; ${failed.length} of ${request.nodes.length} nodes: ${first?.remark ?? failed[0]?.state}`
  return `${short(request.records)} records${why}`
}

/** Whether nodes have more of a range than the database. */
export function isRecorded(range: readonly [number, number], now: number): boolean {
  return range[1] > range[0] && range[1] - range[0] <= RANGE_MOST_MS && range[0] >= now - RECORDED_MS
}

/** Whether a request brought all bins of a range, or not so long ago what there is of them. */
export function hasAll(request: DetailRequest, range: readonly [number, number], now: number): boolean {
  const isFine = request.reason !== 'live' && request.resolution_seconds * 1000 <= BIN_MS && !request.is_open
  const isWhole = request.nodes.length > 0 && request.nodes.every((node) => node.state === 'done')
  return isFine && request.from_ms <= range[0] && request.to_ms >= range[1] && (isWhole || request.requested_ms > now - AGAIN_MS)
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Fetches what nodes have of a range that is shown, unless it was before: once, then `fetched` is called. What is being done, or came of it. */
export function useRecord(job: string, range: readonly [number, number] | null, fetched: () => void): string {
  const [text, setText] = useState('')
  const [from, to] = range ?? [0, 0]
  useEffect(() => {
    setText('')
    if (range === null || !isRecorded([from, to], Date.now())) return undefined
    let isShown = true
    const say = (what: string) => isShown && setText(what)
    const path = `/jobs/${part(job)}/detail`
    const run = async () => {
      const earlier = await fetchJson<DetailRequests>(address(path, { limit: EARLIER }))
      const before = earlier.requests.find((request) => hasAll(request, [from, to], Date.now()))
      if (before !== undefined) return say(`fetched from the nodes: ${outcome(before)}`)
      if (!isShown) return
      say('fetching what the nodes have of it')
      const made = await postJson<{ id: number }>(address(path, { from: from - ROW_MS, to: to + BIN_MS }))
      for (const begin = Date.now(); isShown && Date.now() - begin < PATIENCE_MS; await pause(OPEN_MS)) {
        const request = (await fetchJson<DetailRequests>(address(path, { id: made.id }))).requests[0]
        if (request === undefined) break
        say(`${request.is_open ? 'fetching from the nodes' : 'fetched from the nodes'}: ${outcome(request)}`)
        if (request.is_open) continue
        fetched()
        break
      }
    }
    run().catch((cause) => say(`steps are those of the database: ${asApiError(cause).message}`))
    return () => {
      isShown = false
    }
  }, [job, from, to])
  return text
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
