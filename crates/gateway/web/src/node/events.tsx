// What happened on a host: faults of its GPUs and ports, and sources that ceased, paused or came back.
import { type Events, address } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { MaybeStale } from '../shell/status.tsx'
import { counted, moment } from '../text.ts'
import { rangeBefore } from '../url.ts'
import { shown } from './happened.ts'

const EVENTS_MS = 10_000
const RANGE_MS = 86_400_000
/** The beginning of a page that lives moves in such steps: each is another address. */
const STEP_MS = 600_000
/** Most events that are requested, and that are shown. */
const [LIMIT, SHOWN] = [500, 12]

export function NodeEvents({ name, at }: { name: string; at: string | undefined }) {
  const now = Math.floor(Date.now() / STEP_MS) * STEP_MS
  const range = at === undefined ? { from: new Date(now - RANGE_MS).toISOString() } : rangeBefore(at, RANGE_MS)
  const live = useLive<Events>(address('/events', { ...range, instance: name, limit: LIMIT }), at === undefined ? EVENTS_MS : undefined, true)
  const events = shown(live.data?.events ?? [])
  if (events.length === 0) return null
  return (
    <MaybeStale live={live}>
      <div class="sideways">
        <table data-testid="events">
          <caption>Events of the last day{events.length > SHOWN && `: ${SHOWN} of ${counted(events.length, 'event')}`}</caption>
          <tbody>
            {events.slice(0, SHOWN).map((event) => (
              <tr key={`${event.time_ms} ${event.kind} ${event.text}`}>
                <td>{moment(event.time_ms)}</td>
                <td>
                  <code>{event.kind}</code>
                </td>
                <td>{event.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </MaybeStale>
  )
}
