// A job on one time axis: verdicts and events, what each rank spends in MPI, the operations of all or of one rank, and under them what
// the NVLinks, PCIe and ports of its hosts and the links on its way carried in the same seconds.
import { useMemo, useState } from 'preact/hooks'
import { type Events, type GpuTraffic, type JobGpus, type JobLanes, type JobVerdicts, type LinkRates, type Operations, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { colours, ramp, rgb, step } from '../colour.ts'
import { Chart, type Series } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status, Unknown } from '../shell/status.tsx'
import { Strip, type StripRow } from '../shell/strip.tsx'
import { moment, percent, rate } from '../text.ts'
import { oneOf, setQuery, unknownValues } from '../url.ts'
import { useRecord } from './record.tsx'
import { GpuTrafficLanes } from './gpu-traffic.tsx'
import { Bounds, Happened, LinkLanes, PcieLanes, type Shared } from './lanes.tsx'

const POINTS = 300
const GROUP = 'job'
/** More than these are drawn as a strip and not as lines. */
const LINES_MOST = 8
const FOLDS = ['host', 'gpu', 'link'] as const
const LIVE_MS = 5_000
/** Shares of links are made by windows of 10 s, verdicts each minute. */
const SLOWLY_MS = 15_000
/** Events of the range that are read; the newest. */
const EVENTS = 1_000

interface Props {
  job: string
  operations: readonly string[]
  hosts: readonly string[]
  gpus: JobGpus | undefined
  isLive: boolean
  query: URLSearchParams
  preferences: Preferences
}

export function Timeline({ job, operations, hosts, gpus, isLive, query, preferences }: Props) {
  const operation = query.get('operation') ?? undefined
  const rankText = query.get('rank')
  const rank = rankText !== null && /^\d+$/.test(rankText) ? Number(rankText) : null
  const [from, to] = [query.get('from') ?? undefined, query.get('to') ?? undefined]
  const every = isLive && to === undefined ? LIVE_MS : undefined
  const base = `/jobs/${part(job)}`
  const range = { from, to, points: POINTS }
  const fold = oneOf(FOLDS, query.get('links'))
  const byRank = useLive<Operations>(address(`${base}/operations`, { ...range, by: 'rank', operation }), every, true)
  const byOperation = useLive<Operations>(address(`${base}/operations`, { ...range, by: 'operation', rank: rankText ?? undefined }), every, true)
  const links = useLive<LinkRates>(address(`${base}/links`, { ...range, fold }), every, true)
  const slowly = every === undefined ? undefined : SLOWLY_MS
  const pcie = useLive<JobLanes>(address(`${base}/lanes`, { ...range, kind: 'pcie' }), slowly, true)
  const beside = useLive<GpuTraffic>(address(`${base}/gpu-traffic`, range), slowly, true)
  const ways = useLive<JobLanes>(address(`${base}/link-lanes`, range), slowly, true)
  const verdicts = useLive<JobVerdicts>(address(`${base}/verdicts`), slowly)
  const zoomed = (start: number, end: number) => setQuery({ from: new Date(start).toISOString(), to: new Date(end).toISOString() }, true)
  const first = byRank.data ?? byOperation.data ?? links.data
  const span = useMemo(() => [first?.from_ms ?? 0, first?.to_ms ?? 1] as const, [first?.from_ms, first?.to_ms])
  // Of the axis, which is known when the first series is.
  const events = useLive<Events>(first === undefined ? null : address('/events', { from: first.from_ms, to: first.to_ms, limit: EVENTS }), undefined, true)
  const shared = { preferences, group: GROUP, span, zoomed }
  // Of a job that runs and is looked at rows come each second; what has ended, or was chosen, does not change.
  const of = byRank.data
  const isFixed = of !== undefined && every === undefined
  const shown = isFixed ? ([of.from_ms, of.to_ms] as const) : null
  const record = useRecord(job, shown, () => {
    byRank.again()
    byOperation.again()
  })
  return (
    <section aria-label="Over time">
      <div class="toolbar">
        <h2>Over time</h2>
        <label>
          Operation{' '}
          <select value={operation ?? ''} onChange={(e) => setQuery({ operation: e.currentTarget.value })}>
            <option value="">all of MPI</option>
            {operations.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Links by{' '}
          <select value={fold} onChange={(e) => setQuery({ links: e.currentTarget.value === 'host' ? undefined : e.currentTarget.value })}>
            {FOLDS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label>
          Rank{' '}
          <RankField rank={rank} />
        </label>
        <span class="spring" />
        <span class="dim">
          {first && `${moment(first.from_ms)} to ${moment(first.to_ms)}, steps of ${first.step_seconds} s`}
        </span>
        {record !== '' && (
          <span class="dim" data-testid="record">
            {record}
          </span>
        )}
        {(from !== undefined || to !== undefined) && (
          <button type="button" onClick={() => setQuery({ from: undefined, to: undefined }, true)}>
            Whole job
          </button>
        )}
      </div>
      <Unknown list={unknownValues(query, { links: FOLDS })} />
      <Status of={[byRank, byOperation, links, beside, pcie, ways, verdicts, events]} what="series" />
      {first && <Happened {...shared} job={job} hosts={hosts} gpus={gpus} verdicts={verdicts.data} events={events.data} />}
      {byRank.data && (
        <MaybeStale live={byRank}>
          <Ranks data={byRank.data} {...shared} rank={rank} />
        </MaybeStale>
      )}
      {byOperation.data && (
        <MaybeStale live={byOperation}>
          <OperationLines data={byOperation.data} {...shared} rank={rank} />
        </MaybeStale>
      )}
      {links.data && (
        <MaybeStale live={links}>
          <Links data={links.data} {...shared} />
        </MaybeStale>
      )}
      {beside.data && (
        <MaybeStale live={beside}>
          <GpuTrafficLanes data={beside.data} {...shared} />
        </MaybeStale>
      )}
      {pcie.data && (
        <MaybeStale live={pcie}>
          <PcieLanes data={pcie.data} {...shared} />
        </MaybeStale>
      )}
      {ways.data && (
        <MaybeStale live={ways}>
          <LinkLanes data={ways.data} {...shared} />
        </MaybeStale>
      )}
      <Bounds lanes={[pcie.data, ways.data]} />
    </section>
  )
}

/** Lengths of steps: of ranks there are rows less often than of nodes. */
export function stepsOf(operations: Operations | undefined, ranks: Operations | undefined): string {
  const [one, other] = [operations?.step_seconds, ranks?.step_seconds]
  if (one === undefined || other === undefined || one === other) return one === undefined && other === undefined ? '' : `${one ?? other} s`
  return `${one} s, of ranks ${other} s`
}

/** The typed text is state of this component: the series are drawn anew while somebody types, which would discard it. */
function RankField({ rank }: { rank: number | null }) {
  const [typed, setTyped] = useState<string>()
  const chosen = (text: string) => {
    setTyped(undefined)
    setQuery({ rank: text })
  }
  return (
    <input
      type="number"
      class="rank"
      min={0}
      value={typed ?? rank ?? ''}
      placeholder="all"
      onInput={(e) => setTyped(e.currentTarget.value)}
      onChange={(e) => chosen(e.currentTarget.value)}
      onBlur={() => setTyped(undefined)}
      data-testid="rank"
    />
  )
}

/** Times inside, as shares of what of each step the job ran. */
export function shares(data: Pick<Operations, 'spans_seconds'>, seconds: readonly number[]): number[] {
  return seconds.map((inside, place) => inside / (data.spans_seconds[place] ?? Infinity))
}

function Ranks({ data, rank, ...shared }: Shared & { data: Operations; rank: number | null }) {
  const rows = useMemo<StripRow[]>(
    () => data.series.map((s) => ({ name: `rank ${s.rank}`, short: String(s.rank), values: shares(data, s.elapsed_seconds) })),
    [data],
  )
  const chosen = data.series.findIndex((s) => s.rank === rank)
  return (
    <Strip
      {...shared}
      title="Share of time in MPI, rank by rank (a click shows one rank)"
      times={data.times_ms}
      stepSeconds={data.step_seconds}
      rows={rows}
      colour={ramp}
      format={percent}
      chosen={chosen < 0 ? null : chosen}
      choose={(row) => setQuery({ rank: String(data.series[row]?.rank ?? '') })}
    />
  )
}

function OperationLines({ data, rank, ...shared }: Shared & { data: Operations; rank: number | null }) {
  const series = useMemo<Series[]>(() => {
    const sum = (list: readonly number[]) => list.reduce((s, v) => s + v, 0)
    const busiest = [...data.series].sort((a, b) => sum(b.elapsed_seconds) - sum(a.elapsed_seconds)).slice(0, LINES_MOST)
    return busiest.map((s) => ({ name: s.operation ?? 'all', values: shares(data, s.elapsed_seconds) }))
  }, [data])
  if (series.length === 0) return <p class="dim">No operation in this time.</p>
  const title = rank === null ? 'Ranks in each operation (mean number)' : `Rank ${rank}: share of time in each operation`
  return <Chart {...shared} title={title} times={data.times_ms} series={series} unit={rank === null ? 'count' : 'share'} height={170} />
}

const KINDS = [
  ['nvlink', 'NVLink'],
  ['port', 'Ports'],
] as const

function Links({ data, ...shared }: Shared & { data: LinkRates }) {
  return (
    <>
      {KINDS.map(([kind, title]) => {
        const list = data.links.filter((link) => link.kind === kind)
        if (list.length === 0) return null
        return <KindOfLinks key={kind} data={data} list={list} title={title} {...shared} />
      })}
    </>
  )
}

function KindOfLinks({ data, list, title, ...shared }: Shared & { data: LinkRates; list: LinkRates['links']; title: string }) {
  const many = list.length * 2 > LINES_MOST
  const lines = useMemo<Series[]>(
    () => list.flatMap((link) => [
      { name: `${link.name} out`, values: link.out },
      { name: `${link.name} in`, values: link.in },
    ]),
    [data],
  )
  if (!many) return <Chart {...shared} title={`${title}: bytes a second`} times={data.times_ms} series={lines} unit="rate" height={170} />
  return (
    <>
      {(['out', 'in'] as const).map((way) => (
        <LinkStrip key={way} way={way} data={data} list={list} title={title} {...shared} />
      ))}
    </>
  )
}

function LinkStrip({ data, list, title, way, ...shared }: Shared & { data: LinkRates; list: LinkRates['links']; title: string; way: 'in' | 'out' }) {
  const rows = useMemo<StripRow[]>(() => list.map((link) => ({ name: link.name, short: link.name, values: link[way] })), [data])
  const palette = colours(shared.preferences.palette, shared.preferences.theme).map((c) => rgb(c).map((n) => n * 255) as [number, number, number])
  const speeds = list.map((link) => link.bytes_per_second)
  const isKnown = speeds.every((speed) => speed !== null && speed > 0 && speed === speeds[0])
  const most = Math.max(1, ...list.flatMap((link) => link[way].map((v) => v ?? 0)))
  const scale = isKnown ? (speeds[0] as number) : most
  return (
    <Strip
      {...shared}
      title={`${title}, ${way === 'out' ? 'sent' : 'received'}: share of ${isKnown ? 'their speed' : `the largest, ${rate(most)}`}`}
      times={data.times_ms}
      stepSeconds={data.step_seconds}
      rows={rows}
      colour={(value) => palette[step('utilisation', value / scale)] as [number, number, number]}
      format={rate}
    />
  )
}
