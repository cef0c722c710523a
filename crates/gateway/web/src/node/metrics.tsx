// A host's NVLinks over time: rates or utilisation in both directions, or any metric of the catalogue, by GPU or by link.
import { useMemo } from 'preact/hooks'
import { type LinkRates, type Node, type NvlinkMetric, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { Chart, type Series, type Unit } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { counted } from '../text.ts'
import { rangeBefore, setQuery } from '../url.ts'
import { share } from './drawing.ts'

const RATES_MS = 10_000
const RANGE_MS = 900_000
/** Lines of one chart: more look alike. */
const LINES = 36

/** What the menu has before the catalogue's metrics: both directions in one chart. */
const RATE = 'rate'
const USED = 'utilisation'

interface Props {
  data: Node
  query: URLSearchParams
  preferences: Preferences
}

export function NvlinkMetrics({ data, query, preferences }: Props) {
  const at = query.get('at') ?? undefined
  const metric = query.get('metric') ?? RATE
  const gpu = query.get('gpu')
  const isOfBoth = metric === RATE || metric === USED
  const base = `/nodes/${part(data.host)}`
  const range = { ...rangeBefore(at, RANGE_MS), points: 300 }
  const every = at === undefined ? RATES_MS : undefined
  const rates = useLive<LinkRates>(isOfBoth ? address(`${base}/rates`, { ...range, fold: gpu === null ? 'gpu' : 'link' }) : null, every, true)
  const wanted = isOfBoth ? { points: 1 } : { ...range, metric, fold: gpu === null ? 'gpu' : 'link', gpu: gpu ?? undefined }
  const one = useLive<NvlinkMetric>(address(`${base}/nvlink`, wanted), isOfBoth ? undefined : every, true)
  const metrics = one.data?.metrics ?? []
  const shown = metrics.find((m) => m.metric === metric)
  return (
    <section aria-label="NVLinks over time" data-testid="nvlink-metrics">
      <div class="toolbar">
        <h2>NVLinks over time</h2>
        <label>
          Metric{' '}
          <select value={metric} onChange={(e) => setQuery({ metric: e.currentTarget.value === RATE ? undefined : e.currentTarget.value }, true)}>
            <option value={RATE}>data rate, both directions</option>
            <option value={USED}>utilisation, both directions</option>
            {metrics.map((m) => (
              <option key={m.metric} value={m.metric} title={m.help}>
                {title(m)}
              </option>
            ))}
          </select>
        </label>
        <label>
          Of{' '}
          <select value={gpu ?? ''} onChange={(e) => setQuery({ gpu: e.currentTarget.value }, true)}>
            <option value="">all GPUs, their links together</option>
            {data.gpus.map((g) => (
              <option key={g.uuid} value={g.index}>
                GPU {g.index}, each link
              </option>
            ))}
          </select>
        </label>
        {shown && <span class="dim">{shown.help}</span>}
      </div>
      <Status of={isOfBoth ? [rates] : [one]} what="metrics of NVLinks" />
      {isOfBoth && rates.data && (
        <MaybeStale live={rates}>
          <Both data={rates.data} gpu={gpu} isShare={metric === USED} preferences={preferences} />
        </MaybeStale>
      )}
      {!isOfBoth && one.data?.metric === metric && (
        <MaybeStale live={one}>
          <One data={one.data} preferences={preferences} />
        </MaybeStale>
      )}
    </section>
  )
}

type Metric = NvlinkMetric['metrics'][number]

/** A metric as the menu has it: `replay errors a second`. */
export const title = (m: Metric) => `${m.metric.replaceAll('_', ' ')}${m.is_rate ? ' a second' : ''}`

/** How values of a metric are written. */
export const unitOf = (m: Metric): Unit => (m.unit === 'bytes' || m.unit === 'bytes per second' ? 'rate' : 'count')

function Both({ data, gpu, isShare, preferences }: { data: LinkRates; gpu: string | null; isShare: boolean; preferences: Preferences }) {
  const series: Series[] = useMemo(() => {
    const links = data.links.filter((l) => l.kind === 'nvlink' && (gpu === null || String(l.gpu) === gpu))
    return links.slice(0, LINES / 2).flatMap((l) => {
      const of = (values: readonly (number | null)[]) => (isShare ? values.map((v) => share(v, l.bytes_per_second)) : values)
      const name = l.link === null ? `GPU ${l.gpu}` : `link ${l.link}`
      return [
        { name: `${name} out`, values: of(l.out) },
        { name: `${name} in`, values: of(l.in) },
      ]
    })
  }, [data, gpu, isShare])
  return <Drawn title={isShare ? 'Utilisation of the links’ speed' : 'Bytes a second'} data={data} series={series} unit={isShare ? 'used' : 'rate'} preferences={preferences} />
}

function One({ data, preferences }: { data: NvlinkMetric; preferences: Preferences }) {
  const metric = data.metrics.find((m) => m.metric === data.metric)
  const series: Series[] = useMemo(
    () => data.series.slice(0, LINES).map((s) => ({ name: s.link === null ? `GPU ${s.gpu}` : `link ${s.link}${s.remote === null ? '' : ` to ${s.remote}`}`, values: s.values })),
    [data.series],
  )
  if (metric === undefined) return null
  const left = data.series.length - series.length
  return (
    <>
      <Drawn title={title(metric)} data={data} series={series} unit={unitOf(metric)} preferences={preferences} />
      {left > 0 && <p class="dim">{counted(left, 'link')} more: the API has them.</p>}
    </>
  )
}

interface DrawnProps {
  title: string
  data: { from_ms: number; to_ms: number; times_ms: number[] }
  series: Series[]
  unit: Unit
  preferences: Preferences
}

function Drawn({ title: name, data, series, unit, preferences }: DrawnProps) {
  const span = useMemo(() => [data.from_ms, data.to_ms] as const, [data.from_ms, data.to_ms])
  if (series.every((s) => s.values.every((v) => v === null))) return <p class="dim">Not read in this time: the GPU or its library does not have it, or readings are no longer retained.</p>
  return <Chart title={name} times={data.times_ms} series={series} unit={unit} height={160} span={span} group="node" preferences={preferences} />
}
