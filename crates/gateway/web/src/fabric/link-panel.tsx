// The table of a chosen link: what it carried and whose bytes that was, counters of both ends, routes and jobs that cross it, events.
import { useMemo } from 'preact/hooks'
import { type Link, type LinkEnd, type Topology, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { Chart, type Series } from '../shell/chart.tsx'
import { Panel } from '../shell/panel.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { counted, jobName, moment, rate, used } from '../text.ts'
import { jobPath, nodePath, rangeBefore } from '../url.ts'
import { Contributors } from './contributors.tsx'
import { hostOf, linkId, linkName, routingText } from './model.ts'
import type { Pick } from './picture.ts'

const RANGE_MS = 3_600_000
const LIVE_MS = 5_000
/** Names of routes that are written out; a core link carries thousands. */
const NAMES_SHOWN = 24

interface Props {
  topology: Topology
  link: number
  query: URLSearchParams
  preferences: Preferences
  choose: (pick: Pick | null) => void
}

export function LinkPanel({ topology, link, query, preferences, choose }: Props) {
  const at = query.get('at')
  const url = address(`/fabric/${part(topology.subnet)}/links/${part(linkId(topology, link))}`, { ...rangeBefore(at, RANGE_MS), points: 180 })
  const live = useLive<Link>(url, at === null ? LIVE_MS : undefined, true)
  const data = live.data
  return (
    <Panel title={linkName(topology, link)} close={() => choose(null)}>
      <p class="row">
        {[topology.links.a[link] as number, topology.links.b[link] as number].map((end) => (
          <button key={end} type="button" onClick={() => choose({ node: end })}>
            {topology.nodes.name[end]}
          </button>
        ))}
      </p>
      <Status of={[live]} what="link" />
      {data && (
        <MaybeStale live={live}>
          <Facts data={data} />
          <Contributors subnet={topology.subnet} link={linkId(topology, link)} query={query} preferences={preferences} />
          <Charts data={data} preferences={preferences} />
          <Jobs data={data} />
          <Counters a={data.ends.a} b={data.ends.b} />
          <Routes data={data} />
          <Events data={data} />
        </MaybeStale>
      )}
    </Panel>
  )
}

/** The last value that is known. */
function last(list: readonly (number | null)[]): number | null {
  for (let i = list.length - 1; i >= 0; i -= 1) if (list[i] !== null && list[i] !== undefined) return list[i] as number
  return null
}

function Facts({ data }: { data: Link }) {
  const { a, b } = data.ends
  const line = (series: Link['series']['ab']) => `${rate(last(series.bytes_per_second))}, ${used(last(series.utilisation))} used, ${used(last(series.waiting))} of time waiting`
  return (
    <dl>
      <dt>Speed</dt>
      <dd>
        {rate(data.bytes_per_second)} each way ({data.width} {data.speed}), cabled since {moment(data.since_ms)}
      </dd>
      <dt>{a.name} sends</dt>
      <dd>{line(data.series.ab)}</dd>
      <dt>{b.name} sends</dt>
      <dd>{line(data.series.ba)}</dd>
      {[a, b].map((end) =>
        end.kind === 'switch' ? (
          <>
            <dt>Routing of {end.name}</dt>
            <dd>{routingText(end.routing)}</dd>
          </>
        ) : (
          <>
            <dt>Host</dt>
            <dd>
              <a href={nodePath(end.host ?? hostOf(end.name))}>{end.host ?? hostOf(end.name)}</a>
              {end.host === null && ' (no agent)'}
            </dd>
          </>
        ),
      )}
    </dl>
  )
}

function Charts({ data, preferences }: { data: Link; preferences: Preferences }) {
  const { a, b } = data.ends
  const pair = (pick: (s: Link['series']['ab']) => readonly (number | null)[]): Series[] => [
    { name: `${a.name} sends`, values: pick(data.series.ab) },
    { name: `${b.name} sends`, values: pick(data.series.ba) },
  ]
  const times = data.times_ms
  const utilisation = useMemo(() => pair((s) => s.utilisation), [data])
  const waits = useMemo(() => pair((s) => s.waiting), [data])
  const errors = useMemo(() => [
    { name: `at ${a.name}`, values: data.errors.a },
    { name: `at ${b.name}`, values: data.errors.b },
  ], [data])
  const some = [...data.errors.a, ...data.errors.b].some((n) => (n ?? 0) > 0)
  return (
    <>
      <Chart title="Utilisation" times={times} series={utilisation} unit="used" height={120} preferences={preferences} />
      <Chart title="Time waiting to send" times={times} series={waits} unit="used" height={100} preferences={preferences} />
      {some && <Chart title="Errors" times={times} series={errors} unit="count" height={90} preferences={preferences} />}
    </>
  )
}

function Jobs({ data }: { data: Link }) {
  const { jobs, is_complete } = data.jobs
  return (
    <>
      <h3>Jobs that could use it</h3>
      <p class="dim">By the routes between their hosts, whether or not they send anything.</p>
      {jobs.length === 0 ? <p class="dim">None{is_complete ? '' : ' that is known: not all were looked at'}.</p> : (
        <ul>
          {jobs.map((job) => (
            <li key={job.job_key}>
              <a href={jobPath(job.job_key)}>{jobName(job)}</a> {job.user} {job.ab && job.ba ? 'both ways' : job.ab ? `from ${data.ends.a.name}` : `from ${data.ends.b.name}`}
            </li>
          ))}
        </ul>
      )}
    </>
  )
}

function Counters({ a, b }: { a: LinkEnd; b: LinkEnd }) {
  const names = [...new Set([...Object.keys(a.counters?.values ?? {}), ...Object.keys(b.counters?.values ?? {})])]
  const cell = (end: LinkEnd, name: string) => {
    if (end.counters?.saturated.includes(name)) return 'at its end'
    const value = (end.counters?.values as Record<string, unknown> | undefined)?.[name]
    return typeof value === 'number' ? value.toLocaleString('en') : '–'
  }
  return (
    <table>
      <caption>
        Counters since {a.counters ? moment(a.counters.epoch_ms) : '–'} and {b.counters ? moment(b.counters.epoch_ms) : '–'}
      </caption>
      <thead>
        <tr>
          <th scope="col">Counter</th>
          <th scope="col" class="n">
            {a.name}[{a.port}]
          </th>
          <th scope="col" class="n">
            {b.name}[{b.port}]
          </th>
        </tr>
      </thead>
      <tbody>
        <tr>
          <th scope="row">state</th>
          <td class="n">{a.state ?? '–'}</td>
          <td class="n">{b.state ?? '–'}</td>
        </tr>
        {names.map((name) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td class="n">{cell(a, name)}</td>
            <td class="n">{cell(b, name)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Routes({ data }: { data: Link }) {
  const sides = [
    { from: data.ends.a, routes: data.routes.ab },
    { from: data.ends.b, routes: data.routes.ba },
  ]
  return (
    <>
      <h3>Routes</h3>
      {sides.map(({ from, routes }) =>
        routes === null ? null : (
          <p key={from.guid}>
            {from.name} sends {counted(routes.destinations, 'destination')} this way{from.routing === 'adaptive' ? ', by its table; it routes adaptively and may send others, too' : ''}:{' '}
            {routes.nodes.slice(0, NAMES_SHOWN).map((n) => n.name ?? n.guid ?? `LID ${n.lid}`).join(', ')}
            {routes.destinations > NAMES_SHOWN ? ', …' : ''}
          </p>
        ),
      )}
    </>
  )
}

function Events({ data }: { data: Link }) {
  if (data.events.length === 0) return null
  return (
    <>
      <h3>Events</h3>
      <ul>
        {data.events.map((event) => (
          <li key={`${event.time_ms}${event.kind}${event.port}`}>
            {moment(event.time_ms)} {event.kind}: {event.text}
          </li>
        ))}
      </ul>
    </>
  )
}
