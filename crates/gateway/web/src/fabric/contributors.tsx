// Whose bytes were on a link: of each direction the contributors over time, and a table of them.
import { useMemo } from 'preact/hooks'
import { type DirectionShares, type LinkContributor, type LinkShares, address, part } from '../api/client.ts'
import { useClock } from '../api/clock.ts'
import { useLive } from '../api/live.ts'
import { routingText } from './model.ts'
import { colourOf, isNobody, ofSpeed, shareText, whoKey, whoName } from '../shares.ts'
import { LINES } from '../shell/chart.tsx'
import { Kind } from '../shell/kind.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { type Area, Stack } from '../shell/stack.tsx'
import { MaybeStale, Status } from '../shell/status.tsx'
import { clock, moment, percent, rate } from '../text.ts'
import { jobPath, nodePath, oneOf, rangeBefore, setQuery } from '../url.ts'

const LIVE_MS = 10_000
const SPANS = ['600', '3600', '21600'] as const
const SPAN_NAMES: Record<string, string> = { '600': '10 min', '3600': '1 h', '21600': '6 h' }
const POINTS = 120
/** Contributors that have a colour of their own; the chart sums the others. */
const COLOURED = 7
const GREYS = { light: ['#9aa3af', '#d3d8df'], dark: ['#6b727d', '#414955'] } as const

interface Props {
  subnet: string
  link: string
  query: URLSearchParams
  preferences: Preferences
}

export function Contributors({ subnet, link, query, preferences }: Props) {
  const at = query.get('at')
  const span = oneOf(SPANS, query.get('span'))
  const length = Number(span) * 1000
  const now = useClock(LIVE_MS, at === null)
  const range = at === null ? { from: new Date(now - length).toISOString() } : rangeBefore(at, length)
  const live = useLive<LinkShares>(address(`/fabric/${part(subnet)}/links/${part(link)}/shares`, { ...range, points: POINTS }), undefined, true)
  const data = live.data
  return (
    <section aria-label="Contributors" data-testid="contributors">
      <div class="row">
        <h3>Whose bytes</h3>
        <span class="spring" />
        <label>
          over{' '}
          <select value={span} onChange={(e) => setQuery({ span: e.currentTarget.value === SPANS[0] ? undefined : e.currentTarget.value })}>
            {SPANS.map((seconds) => (
              <option key={seconds} value={seconds}>
                {SPAN_NAMES[seconds]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Status of={[live]} what="contributors" />
      {data && (
        <MaybeStale live={live}>
          <Both data={data} preferences={preferences} />
        </MaybeStale>
      )}
    </section>
  )
}

function Both({ data, preferences }: { data: LinkShares; preferences: Preferences }) {
  const colours = useMemo(() => colourOf([data.ab, data.ba], LINES[preferences.theme].slice(0, COLOURED), GREYS[preferences.theme]), [data, preferences.theme])
  if (data.computed_until_ms === null) return <p class="dim">No shares of links are computed yet: `throughline serve` with the role upkeep makes them.</p>
  return (
    <>
      {data.routing === 'adaptive' && <p class="note-line">Switches of this fabric route adaptively: where bytes may have taken other links, shares are bounds.</p>}
      {[data.ab, data.ba].map((direction) => (
        <Direction key={direction.from.guid + direction.from.port} {...{ direction, data, colours, preferences }} />
      ))}
      <p class="dim">
        Windows of 10 s, computed until {clock(data.computed_until_ms)}. A contributor below 1 % of what was counted is not listed. Routing of the fabric: {routingText(data.routing)}.
      </p>
    </>
  )
}

interface DirectionProps {
  direction: DirectionShares
  data: LinkShares
  colours: Map<string, string>
  preferences: Preferences
}

function Direction({ direction, data, colours, preferences }: DirectionProps) {
  const areas = useMemo(() => areasOf(direction, colours), [direction, colours])
  const name = `${direction.from.name} sends`
  if (direction.windows === 0) {
    return (
      <p>
        {name}: <span class="dim">no traffic in windows from {moment(data.from_ms)} on.</span>
      </p>
    )
  }
  return (
    <>
      <Stack title={`${name}, by contributor`} times={data.times_ms} areas={areas} counted={direction.counted_bytes_per_second} capacity={direction.bytes_per_second} height={130} preferences={preferences} />
      {direction.is_above_speed && (
        <p class="note-line" role="note">
          More was counted than the link can carry: its counters were not read exactly at the windows' edges. Shown up to 100 %.
        </p>
      )}
      <div class="sideways">
        <Table direction={direction} colours={colours} name={name} />
      </div>
    </>
  )
}

/** Areas from the bottom up: the largest first, those without a colour together, then others and the rest. */
function areasOf(direction: DirectionShares, colours: Map<string, string>): Area[] {
  const own = direction.contributors.filter((c) => !isNobody(c))
  const area = (c: LinkContributor): Area => ({ name: c.label, colour: colours.get(whoKey(c)) as string, values: c.series })
  return [...own.map(area), ...direction.contributors.filter(isNobody).map(area)]
}

function Table({ direction, colours, name }: { direction: DirectionShares; colours: Map<string, string>; name: string }) {
  const seconds = direction.windows * 10
  return (
    <table>
      <caption>
        {name} {rate(direction.counted_bytes === null ? null : direction.counted_bytes / (direction.counted_windows * 10))}, {percent(direction.utilisation)} of the link, at most {percent(direction.peak_utilisation)} in 10 s
        {direction.is_above_speed && ' (uneven readings)'}
      </caption>
      <thead>
        <tr>
          <th scope="col">Contributor</th>
          <th scope="col" class="n">
            Rate
          </th>
          <th scope="col" class="n">
            Of the link
          </th>
          <th scope="col" class="n">
            Of its bytes
          </th>
          <th scope="col">Known</th>
        </tr>
      </thead>
      <tbody>
        {direction.contributors.map((c) => {
          const { share, between } = shareText(c)
          const ofLink = ofSpeed(c.bytes, direction.windows, direction.bytes_per_second)
          return (
            <tr key={whoKey(c)}>
              <th scope="row">
                <svg class="swatch" width="10" height="10" aria-hidden="true">
                  <rect width="10" height="10" rx="2" fill={colours.get(whoKey(c))} />
                </svg>{' '}
                {c.operation !== null && `${c.operation} of `}
                <Who c={c} />
              </th>
              <td class="n">{rate(Math.round(c.bytes / seconds))}</td>
              <td class="n">{ofLink !== null && ofLink > 1 ? '100 % (uneven)' : percent(ofLink)}</td>
              <td class="n">
                {share}
                {between !== null && <small class="between">{between}</small>}
              </td>
              <td>
                <Kind of={c} />
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}

function Who({ c }: { c: LinkContributor }) {
  if (c.job_key !== null) return <a href={jobPath(c.job_key)}>{whoName(c)}</a>
  if (c.contributor === 'host' && c.name !== null) {
    return (
      <>
        unmonitored host <a href={nodePath(c.name)}>{c.name}</a>
      </>
    )
  }
  return <>{whoName(c)}</>
}
