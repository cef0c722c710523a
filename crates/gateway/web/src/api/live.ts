// Responses that stay on the screen: the last one is shown while the next is fetched or fails, with what is wrong and
// since when. One request at a time, the next one only after the answer.
import { useEffect, useRef, useState } from 'preact/hooks'
import { type ApiError, asApiError, fetchJson, token } from './client.ts'

export interface Live<T> {
  /** The last good answer, of this address. */
  data: T | undefined
  /** What went wrong since. */
  error: ApiError | undefined
  /** When `data` came, ms since 1970. */
  since: number
  /** No answer for longer than a reader likes. */
  slow: boolean
  /** Fetches again at once. */
  again: () => void
}

const SLOW_MS = 2_000
/** Pause after the first failure; it doubles to the longest. */
const PAUSE_MS = 2_000
const PAUSE_LONGEST_MS = 30_000

/** The pause before the next try: the interval, or longer while it fails. */
export function pauseAfter(failures: number, every: number | undefined): number | undefined {
  if (failures === 0) return every
  return Math.max(every ?? 0, Math.min(PAUSE_MS * 2 ** (failures - 1), PAUSE_LONGEST_MS))
}

/** Whether another try can help: a wrong parameter stays wrong. */
export const mayHeal = (error: ApiError) => ![400, 401, 403, 404, 405, 413].includes(error.status)

interface Held<T> {
  data?: T
  error?: ApiError
  since: number
  slow: boolean
}

/** Fetches `url` (null: nothing) every `every` milliseconds. `retain`: the last response of
 * another address stays until the first of this one, for addresses that differ in time only. */
export function useLive<T>(url: string | null, every?: number, retain = false): Live<T> {
  const [held, setHeld] = useState<Held<T>>({ since: 0, slow: false })
  const [round, setRound] = useState(0)
  const retainNow = useRef(retain)
  retainNow.current = retain
  const of = useRef(url)
  // When a token is given, everything that was refused without one is fetched again.
  useEffect(() => token.watch(() => setRound((n) => n + 1)), [])
  useEffect(() => {
    // Fetching the same address again leaves what is shown; another address clears it unless `retain` is set.
    if (!retainNow.current && of.current !== url) setHeld({ since: 0, slow: false })
    of.current = url
    if (url === null) return undefined
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let failures = 0
    const load = async () => {
      // A page in the background fetches nothing.
      if (document.hidden && every !== undefined) {
        timer = setTimeout(load, every)
        return
      }
      const late = setTimeout(() => setHeld((now) => ({ ...now, slow: true })), SLOW_MS)
      try {
        const data = await fetchJson<T>(url, stop.signal)
        failures = 0
        setHeld({ data, since: Date.now(), slow: false })
      } catch (cause) {
        if (stop.signal.aborted) return
        failures += 1
        const error = asApiError(cause)
        setHeld((now) => ({ ...now, error, slow: false }))
        if (!mayHeal(error)) return
      } finally {
        clearTimeout(late)
      }
      const pause = pauseAfter(failures, every)
      if (pause !== undefined) timer = setTimeout(load, pause)
    }
    void load()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }, [url, every, round])
  return { data: held.data, error: held.error, since: held.since, slow: held.slow, again: () => setRound((n) => n + 1) }
}
