// One host: GPUs, CPUs, NVLink switches and adapters, logical links that unfold into physical ones, and rates over time.
import { useMemo } from 'preact/hooks'
import { type LinkRates, type Node, type Threshold, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { colours, endsOf, legendOf, stepBetween } from '../colour.ts'
import { Chart, type Series } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { TimeBar } from '../shell/time.tsx'
import { counted, jobName, moment, rate } from '../text.ts'
import { jobPath, nodePath, rangeBefore, setQuery } from '../url.ts'
import { type Line, type Spot, draw, share } from './drawing.ts'
import { NodeEvents } from './events.tsx'
import { ChosenMetrics } from './gpu_metrics.tsx'
import { NvlinkMetrics } from './metrics.tsx'
import { Adapters, LogicalLinks } from './tables.tsx'
import { verdicts } from './verdict.ts'

const LIVE_MS = 2_000
const RATES_MS = 10_000
const RANGE_MS = 900_000

export function NodePage({ name, query, preferences }: { name: string; query: URLSearchParams; preferences: Preferences }) {
  const at = query.get('at') ?? undefined
  const base = `/nodes/${part(name)}`
  const live = useLive<Node>(address(base, { at }), at === undefined ? LIVE_MS : undefined, true)
  const rates = useLive<LinkRates>(address(`${base}/rates`, { ...rangeBefore(at, RANGE_MS), fold: 'gpu', points: 300 }), at === undefined ? RATES_MS : undefined, true)
  const data = live.data
  const unfold = query.get('unfold')
  const list = useMemo(() => new Set((unfold ?? '').split(',').filter((s) => s !== '')), [unfold])
  const isUnfolded = (logical: number) => unfold === 'all' || list.has(String(logical))
  const toggle = (logical: number) => {
    const now = unfold === 'all' ? new Set((data?.logical ?? []).map((_, i) => String(i))) : new Set(list)
    if (!now.delete(String(logical))) now.add(String(logical))
    setQuery({ unfold: [...now].join(',') })
  }
  return (
    <section class="page wide">
      <div class="toolbar">
        <h1>Node {name}</h1>
        {data?.has_agent && <span class="dim">up since {moment(data.boot_ms)}</span>}
        <span class="spring" />
        {data && data.logical.length > 0 && (
          <button type="button" aria-pressed={unfold === 'all'} onClick={() => setQuery({ unfold: unfold === 'all' ? undefined : 'all' }, true)}>
            {unfold === 'all' ? 'Fold all links' : 'Unfold all links'}
          </button>
        )}
      </div>
      <Status of={[live, rates]} what="node" />
      {data && (
        <MaybeStale live={live}>
          {!data.has_agent && (
            <p class="banner" data-testid="agentless">
              No agent reports this host: here is what the fabric knows of it. GPUs, jobs and NVLinks need{' '}
              <code>throughline-agent</code> on the host.
            </p>
          )}
          {verdicts(data).map((v) => (
            <p key={v.text} class={v.isWrong ? 'note-line' : 'dim'} role={v.isWrong ? 'note' : undefined} data-testid="verdict">
              {v.isWrong ? v.text.charAt(0).toUpperCase() + v.text.slice(1) + '.' : v.text}
            </p>
          ))}
          <Jobs data={data} />
          <Domains data={data} />
          <div class="columns node">
            {data.has_agent && <Picture {...{ data, preferences, isUnfolded, toggle }} />}
            <div>
              <LogicalLinks {...{ data, preferences, isUnfolded, toggle }} />
              <Adapters {...{ data, preferences }} />
            </div>
          </div>
        </MaybeStale>
      )}
      <NodeEvents name={name} at={at} />
      {data && data.logical.length > 0 && <NvlinkMetrics data={data} query={query} preferences={preferences} />}
      {data && data.gpus.length > 0 && <ChosenMetrics host={name} query={query} preferences={preferences} />}
      {rates.data && (
        <MaybeStale live={rates}>
          <Rates data={rates.data} preferences={preferences} />
        </MaybeStale>
      )}
      <TimeBar at={at} shown={data?.at_ms} table="host_port_counters" />
    </section>
  )
}

function Jobs({ data }: { data: Node }) {
  if (data.jobs.length === 0) return null
  return (
    <p>
      Jobs here:{' '}
      {data.jobs.map((job) => (
        <span key={job.job_key}>
          <a href={jobPath(job.job_key)}>{jobName(job)}</a> {job.user} ({job.ranks} {job.ranks === 1 ? 'rank' : 'ranks'}){' '}
        </span>
      ))}
    </p>
  )
}

/** NVLink domains over several nodes, with links to the nodes. */
function Domains({ data }: { data: Node }) {
  return (
    <>
      {data.nvlink_domains.map((d) => (
        <p key={d.domain} data-testid="nvlink-domain" title="These GPUs can reach one another over NVLink. What goes that way is in no InfiniBand port’s counters">
          NVLink domain <code>{d.domain}</code>: {counted(d.nodes.reduce((sum, n) => sum + n.gpus, 0), 'GPU')} on {counted(d.nodes.length, 'node')}:{' '}
          {d.nodes.map((n) => (
            <span key={n.host}>
              {n.host === data.host ? 'this one' : <a href={nodePath(n.host)}>{n.host}</a>} ({n.gpus}){' '}
            </span>
          ))}
        </p>
      ))}
    </>
  )
}

interface PictureProps {
  data: Node
  preferences: Preferences
  isUnfolded: (logical: number) => boolean
  toggle: (logical: number) => void
}

function Picture({ data, preferences, isUnfolded, toggle }: PictureProps) {
  const drawing = draw(data, isUnfolded)
  const palette = colours(preferences.palette, preferences.theme)
  const spots = new Map(drawing.spots.map((s) => [s.id, s]))
  const { nvlink, port } = data.thresholds
  const isSame = nvlink.busy_above === port.busy_above && nvlink.full_above === port.full_above
  return (
    <figure class="node-picture">
      <svg viewBox={`0 0 ${drawing.width} ${drawing.height}`} role="img" aria-label={`GPUs, CPUs, NVLink switches and adapters of ${data.host}. The tables have the same data.`} data-testid="node">
        <Affinities data={data} spots={spots} />
        {drawing.lines.map((line) => (
          <LinkLine key={`${line.logical}.${line.link}`} {...{ data, line, palette, toggle }} />
        ))}
        {data.adapters.map((a, i) => {
          const [from, to] = [spots.get(`adapter${i}`), spots.get(`leaf${i}`)]
          if (from === undefined || to === undefined) return null
          const half = (from.y + to.y) / 2
          return (
            <g key={i} class="half">
              <line x1={from.x} y1={from.y} x2={from.x} y2={half} stroke={palette[stepBetween(endsOf(data.thresholds.port), share(a.out_bytes_per_second, a.bytes_per_second))]} />
              <line x1={from.x} y1={to.y} x2={from.x} y2={half} stroke={palette[stepBetween(endsOf(data.thresholds.port), share(a.in_bytes_per_second, a.bytes_per_second))]} />
            </g>
          )
        })}
        {drawing.spots.map((spot) => (
          <Box key={spot.id} spot={spot} />
        ))}
      </svg>
      <figcaption class="legend">
        <span>Each half by what its end sends:</span>
        <Legend of={data.thresholds.nvlink} palette={palette} />
        {!isSame && (
          <>
            <span>adapters:</span>
            <Legend of={data.thresholds.port} palette={palette} />
          </>
        )}
        <span data-testid="thresholds">{origin(data)}</span>
        <span>dashed: nearest CPU and adapter</span>
      </figcaption>
    </figure>
  )
}

/** Whose thresholds the colours follow. */
function origin({ thresholds: { nvlink, port } }: Node): string {
  const site = 'the site’s thresholds ([query.thresholds] of server.toml)'
  const usual = 'the alerts’ default thresholds'
  if (nvlink.origin === port.origin) return `Orange and red by ${nvlink.origin === 'site' ? site : usual}`
  return `Orange and red by ${site} for ${nvlink.origin === 'site' ? 'NVLinks' : 'adapters'}, else by ${usual}`
}

function Legend({ of, palette }: { of: Threshold; palette: readonly string[] }) {
  return (
    <>
      {legendOf(endsOf(of)).map((text, i) => (
        <span key={text} class="key">
          <svg width="18" height="10" aria-hidden="true">
            <rect width="18" height="10" rx="2" fill={palette[i]} />
          </svg>
          {text}
        </span>
      ))}
    </>
  )
}

/** Width of a letter of a note, with the box's margin. */
const NOTE_LETTER_PX = 6.4

/** Which CPU a GPU hangs at, and its nearest adapters. */
function Affinities({ data, spots }: { data: Node; spots: Map<string, Spot> }) {
  const lines: [Spot, Spot][] = []
  const join = (a: string, b: string) => {
    const [from, to] = [spots.get(a), spots.get(b)]
    if (from !== undefined && to !== undefined) lines.push([from, to])
  }
  data.gpus.forEach((gpu, i) => {
    if (gpu.numa_node !== null) join(`gpu${i}`, `cpu${data.numa_nodes.indexOf(gpu.numa_node)}`)
    for (const device of gpu.nearest_adapters ?? []) {
      const at = data.adapters.findIndex((a) => a.device === device)
      if (at >= 0) join(`gpu${i}`, `adapter${at}`)
    }
  })
  return (
    <g class="affinity">
      {lines.map(([a, b]) => (
        <line key={`${a.id}${b.id}`} x1={a.x} y1={a.y} x2={b.x} y2={b.y} />
      ))}
    </g>
  )
}

interface LineProps {
  data: Node
  line: Line
  palette: readonly string[]
  toggle: (logical: number) => void
}

function LinkLine({ data, line, palette, toggle }: LineProps) {
  const l = data.logical[line.logical]
  if (l === undefined) return null
  const [out, back, speed] =
    line.link === null
      ? [l.out_bytes_per_second, l.in_bytes_per_second, l.bytes_per_second]
      : [data.links.out_bytes_per_second[line.link] ?? null, data.links.in_bytes_per_second[line.link] ?? null, data.links.bytes_per_second[line.link] ?? null]
  const tip = `${line.link === null ? counted(l.links.length, 'link') : `link ${data.links.link[line.link]}`}: out ${rate(out)}, in ${rate(back)} of ${rate(speed)}`
  return (
    <g class={`half ${line.link === null ? 'logical' : 'physical'}`} onClick={() => toggle(line.logical)}>
      <title>{tip}</title>
      <path d={line.first} stroke={palette[stepBetween(endsOf(data.thresholds.nvlink), share(out, speed))]} />
      <path d={line.second} stroke={palette[stepBetween(endsOf(data.thresholds.nvlink), share(back, speed))]} />
    </g>
  )
}

function Box({ spot }: { spot: Spot }) {
  const { width } = spot
  const height = spot.kind === 'end' ? 24 : 40
  const letters = Math.floor(width / NOTE_LETTER_PX)
  return (
    <g class={`spot ${spot.kind}`}>
      <title>{`${spot.title} ${spot.note}`}</title>
      <rect x={spot.x - width / 2} y={spot.y - height / 2} width={width} height={height} rx={spot.kind === 'leaf' ? 2 : 8} />
      <text x={spot.x} y={spot.note === '' ? spot.y + 4 : spot.y - 2}>
        {spot.title}
      </text>
      {spot.note !== '' && (
        <text class="note" x={spot.x} y={spot.y + 12}>
          {spot.note.length > letters ? `${spot.note.slice(0, letters - 1)}…` : spot.note}
        </text>
      )}
    </g>
  )
}

function Rates({ data, preferences }: { data: LinkRates; preferences: Preferences }) {
  const span = useMemo(() => [data.from_ms, data.to_ms] as const, [data.from_ms, data.to_ms])
  const series: Series[] = data.links
    .filter((l) => l.kind === 'port')
    .flatMap((l) => [
      { name: `${l.name} out`, values: l.out },
      { name: `${l.name} in`, values: l.in },
    ])
  if (series.length === 0) return null
  return <Chart title="Adapter ports: bytes a second" times={data.times_ms} series={series} unit="rate" height={160} span={span} group="node" preferences={preferences} />
}
