// The time that a picture shows: now, or any past time by a slider over the time that the database has.
import { useEffect, useState } from 'preact/hooks'
import { type Range, address } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { clock, duration, moment } from '../text.ts'
import { setQuery, timeOf } from '../url.ts'

/** Ranges that the slider spans; the last one is all there is. */
const SPANS = ['900', '3600', '21600', '86400', '604800', 'all'] as const
/** Moves of the slider are taken over when it rests this long. */
const REST_MS = 150
const STEPS = 900

/** A time of the slider, rounded to what a step means, within the range. */
export function timeAt(position: number, from: number, to: number): number {
  return Math.round((from + ((to - from) * position) / STEPS) / 1000) * 1000
}
export function positionOf(time: number, from: number, to: number): number {
  return to <= from ? STEPS : Math.min(Math.max(Math.round(((time - from) / (to - from)) * STEPS), 0), STEPS)
}

/** `table` is the one whose range the slider spans; `shown` the time of the answer on the screen. */
export function TimeBar({ at, shown, table: name }: { at: string | undefined; shown: number | undefined; table: string }) {
  const range = useLive<Range>(address('/range'), 30_000)
  const [span, setSpan] = useState<(typeof SPANS)[number]>('3600')
  const [held, setHeld] = useState<number | null>(null)
  const table = range.data?.tables.find((t) => t.table === name)
  const parsed = at === undefined ? null : timeOf(at)
  // What is no time is the API's to complain of.
  const wanted = parsed === null || Number.isNaN(parsed) ? null : parsed
  const end = Math.max(table?.to_ms ?? 0, wanted ?? 0)
  const oldest = table?.from_ms ?? end
  let from = span === 'all' ? oldest : Math.max(oldest, end - Number(span) * 1000)
  // A time that a colleague sent may lie before the span.
  if (wanted !== null && wanted < from) from = Math.min(wanted, oldest)
  const position = held ?? (wanted === null ? STEPS : positionOf(wanted, from, end))
  useEffect(() => {
    if (held === null) return undefined
    const timer = setTimeout(() => {
      setQuery({ at: new Date(timeAt(held, from, end)).toISOString() })
      setHeld(null)
    }, REST_MS)
    return () => clearTimeout(timer)
  }, [held])
  const time = held === null ? (wanted ?? end) : timeAt(held, from, end)
  return (
    <div class="timebar">
      <button type="button" aria-pressed={at === undefined} onClick={() => setQuery({ at: undefined }, true)} data-testid="live">
        Live
      </button>
      <span class="dim">{table ? moment(from) : ''}</span>
      <input
        type="range"
        min={0}
        max={STEPS}
        value={position}
        disabled={table === undefined}
        aria-label="Time that the picture shows"
        aria-valuetext={at === undefined && held === null ? 'live' : moment(time)}
        onInput={(e) => setHeld(Number(e.currentTarget.value))}
        data-testid="slider"
      />
      <span class="dim">{table ? clock(end) : ''}</span>
      <label>
        of the last{' '}
        <select value={span} onChange={(e) => setSpan(e.currentTarget.value as (typeof SPANS)[number])}>
          {SPANS.map((s) => (
            <option key={s} value={s}>
              {s === 'all' ? 'all there is' : duration(Number(s))}
            </option>
          ))}
        </select>
      </label>
      <output class="time" data-testid="time">
        {at === undefined && held === null ? `live: ${shown === undefined ? '–' : clock(shown)}` : moment(time)}
      </output>
    </div>
  )
}
