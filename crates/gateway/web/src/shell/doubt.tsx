// A line above every page while the database's clock is not believed: nothing is dropped then, and times may be wrong.
import { address, type DatabaseClock } from '../api/client.ts'
import { useLive } from '../api/live.ts'

/** How often it is looked at: checks of the server are some seconds apart. */
const INTERVAL_MS = 30_000

/** What is said of a clock; nothing while it is believed. */
export function doubt(clock: Pick<DatabaseClock, 'warning' | 'remedy'> | undefined): string | null {
  if (!clock?.warning) return null
  return `${clock.warning}; ${clock.remedy ?? 'the log of throughline serve says more'}.`
}

export function ClockDoubt() {
  const text = doubt(useLive<DatabaseClock>(address('/clock'), INTERVAL_MS).data)
  if (text === null) return null
  return (
    <div class="banner bad" role="status" data-testid="clock">
      <strong>Nothing is dropped, thinned or packed:</strong> {text}
    </div>
  )
}
