// Metrics of a host's GPUs that the site chose ([cupti] metrics of agent.toml) over time: one of the menu, a line for each GPU.
import { useMemo } from 'preact/hooks'
import { type GpuMetrics, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { Chart, type Series, type Unit } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { counted } from '../text.ts'
import { rangeBefore, setQuery } from '../url.ts'

const LIVE_MS = 10_000
const LISTED_MS = 60_000
const RANGE_MS = 900_000

interface Props {
  host: string
  query: URLSearchParams
  preferences: Preferences
}

export function ChosenMetrics({ host, query, preferences }: Props) {
  const at = query.get('at') ?? undefined
  const base = `/nodes/${part(host)}/gpu-metrics`
  const range = rangeBefore(at, RANGE_MS)
  const known = useLive<GpuMetrics>(address(base, { ...range, points: 1 }), at === undefined ? LISTED_MS : undefined, true)
  const metrics = known.data?.metrics ?? []
  const chosen = chosenOf(metrics, query.get('gpu_metric'))
  const live = useLive<GpuMetrics>(chosen === undefined ? null : address(base, { ...range, metric: chosen.metric, points: 300 }), at === undefined ? LIVE_MS : undefined, true)
  // Most sites choose none.
  if (metrics.length === 0 || chosen === undefined) return null
  return (
    <section aria-label="GPU metrics over time" data-testid="gpu-metrics">
      <div class="toolbar">
        <h2>GPU metrics over time</h2>
        <label>
          Metric <Menu metrics={metrics} chosen={chosen.metric} />
        </label>
        <span class="dim">{described(chosen)}</span>
      </div>
      <Status of={[known, live]} what="metrics of GPUs" />
      {live.data?.metric === chosen.metric && (
        <MaybeStale live={live}>
          <Drawn data={live.data} metric={chosen} preferences={preferences} />
        </MaybeStale>
      )}
    </section>
  )
}

type Metric = GpuMetrics['metrics'][number]

/** The one of the address, else the first. */
export const chosenOf = (metrics: readonly Metric[], name: string | null): Metric | undefined => metrics.find((m) => m.metric === name) ?? metrics[0]

export function Menu({ metrics, chosen }: { metrics: readonly Metric[]; chosen: string }) {
  return (
    <select value={chosen} onChange={(e) => setQuery({ gpu_metric: e.currentTarget.value }, true)}>
      {metrics.map((m) => (
        <option key={m.metric} value={m.metric}>
          {title(m)}
        </option>
      ))}
    </select>
  )
}

/** A metric as the menu has it: its name by CUPTI, and what is drawn of a sum. */
export const title = (m: Metric): string => `${m.metric}${m.is_rate ? ' a second' : ''}`

const FOLD: Record<Metric['fold'], string> = { rate: 'increase in a second', mean: 'mean of the samples', largest: 'largest of the samples', least: 'least of the samples' }

/** What a point of the chart is. */
export const described = (m: Metric): string => `${FOLD[m.fold]}, of ${counted(m.gpus, 'GPU')}`

/** How values are written: CUPTI's names say which are bytes. */
export const unitOf = (m: Metric): Unit => (/bytes/.test(m.metric) && m.is_rate ? 'rate' : 'count')

export const seriesOf = (data: GpuMetrics): Series[] => data.series.map((s) => ({ name: `GPU ${s.gpu}`, values: s.values }))

function Drawn({ data, metric, preferences }: { data: GpuMetrics; metric: Metric; preferences: Preferences }) {
  const span = useMemo(() => [data.from_ms, data.to_ms] as const, [data.from_ms, data.to_ms])
  const series = useMemo(() => seriesOf(data), [data])
  if (series.length === 0) return <p class="dim">No GPU held a number of it in this time.</p>
  return <Chart title={title(metric)} times={data.times_ms} series={series} unit={unitOf(metric)} height={160} span={span} group="node" preferences={preferences} />
}
