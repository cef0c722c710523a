// What is wrong with a fabric now, in one line above its map: links that are down, full, waiting, or count errors.
import type { Load, Topology } from '../api/client.ts'
import { counted, percent, short } from '../text.ts'
import { setQuery } from '../url.ts'
import { linkId, linkName } from './model.ts'

export interface Finding {
  text: string
  /** The worst link, as a place in the columns. */
  worst: number
}

/** The largest of both directions of each link; null where none was read. */
function larger(a: readonly (number | null)[], b: readonly (number | null)[]): (number | null)[] {
  return a.map((one, i) => {
    const other = b[i] ?? null
    return one === null ? other : other === null ? one : Math.max(one, other)
  })
}

function finding(values: readonly (number | null)[], above: number, text: (count: number, worst: number) => string): Finding[] {
  let [count, worst] = [0, -1]
  values.forEach((value, i) => {
    if (value === null || value <= above) return
    count += 1
    if (worst < 0 || value > (values[worst] ?? 0)) worst = i
  })
  return count === 0 ? [] : [{ text: text(count, values[worst] ?? 0), worst }]
}

/** What is wrong, the gravest first; none where nothing is. */
export function findings(topology: Topology, load: Load): Finding[] {
  const { state } = topology.links
  // Those of the alerts InfinibandLinkSaturated and InfinibandLinkCongested or the site's own, over the window that is shown.
  const [full, waits] = [load.thresholds.utilisation.full_above, load.thresholds.waiting.full_above]
  const down = state.map((s) => (topology.states[s]?.toLowerCase() === 'down' ? 1 : 0))
  return [
    ...finding(down, 0, (n) => `${counted(n, 'cable')} down`),
    ...finding(larger(load.utilisation.ab, load.utilisation.ba), full, (n, most) => `${counted(n, 'link')} more than ${percent(full)} used (the fullest ${percent(Math.min(most, 1))})`),
    ...finding(larger(load.waiting.ab, load.waiting.ba), waits, (n, most) => `on ${counted(n, 'link')} data waits more than ${percent(waits)} of the time (at most ${percent(Math.min(most, 1))})`),
    ...finding(larger(load.errors.a, load.errors.b), 0, (n, most) => `${counted(n, 'link')} with errors (at most ${short(most)})`),
  ]
}

/** The line. */
export function Headline({ topology, load }: { topology: Topology; load: Load | undefined }) {
  if (load === undefined || load.topology !== topology.version) return null
  const all = findings(topology, load)
  const unread = load.round === null || load.round.read === 0
  if (all.length === 0) {
    return (
      <p class="headline dim" data-testid="headline">
        {unread ? 'No port was read in the last round: nothing can be said.' : `Nothing is wrong: no cable is down, no link full, none waits or counts errors, in the last ${short(load.window_seconds)} s.`}
      </p>
    )
  }
  return (
    <p class="headline note-line" role="note" data-testid="headline">
      In the last {short(load.window_seconds)} s:{' '}
      {all.map((one, i) => (
        <span key={one.text}>
          {i > 0 && '; '}
          {one.text}:{' '}
          <button type="button" class="plain" onClick={() => setQuery({ link: linkId(topology, one.worst), node: undefined, subnet: topology.subnet }, true)}>
            {linkName(topology, one.worst)}
          </button>
        </span>
      ))}
      .
    </p>
  )
}
