// Lanes of a job's time axis beside those of its MPI calls: verdicts and events, PCIe, and links on its way through the fabric.
import { useMemo } from 'preact/hooks'
import type { Events, JobGpus, JobLanes, JobVerdicts } from '../api/client.ts'
import { colours, rgb, step } from '../colour.ts'
import { Chart, type Series } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { Spans } from '../shell/spans.tsx'
import { Strip } from '../shell/strip.tsx'
import { counted, percent, rate } from '../text.ts'
import { bounds, happened, rowsOf } from './axis.ts'
import { ownGpus } from './gpus.ts'

export interface Shared {
  preferences: Preferences
  group: string
  span: readonly [number, number]
  zoomed: (from: number, to: number) => void
}

/** More than these are drawn as a strip and not as lines. */
const LINES_MOST = 8

/** What was said of the job and what happened, in the same seconds. */
export function Happened({ job, hosts, gpus, verdicts, events, ...shared }: Shared & { job: string; hosts: readonly string[]; gpus: JobGpus | undefined; verdicts: JobVerdicts | undefined; events: Events | undefined }) {
  const rows = useMemo(() => happened(job, hosts, ownGpus(gpus), verdicts, events, shared.span), [job, hosts, gpus, verdicts, events, shared.span])
  if (rows.length === 0) return <p class="dim">No verdict against it and no event in this time.</p>
  return <Spans {...shared} title="Verdicts and events" rows={rows} />
}

/** PCIe of the job's GPUs. */
export function PcieLanes({ data, ...shared }: Shared & { data: JobLanes }) {
  const lines = useMemo<Series[]>(() => data.lanes.flatMap((lane) => lane.series.map((s) => ({ name: `${lane.name} ${s.name}`, values: s.values }))), [data])
  const most = useMemo(() => Math.max(1, ...lines.flatMap((line) => line.values.map((v) => v ?? 0))), [lines])
  if (lines.length === 0) return null
  if (most <= 1) return <p class="dim">PCIe of {counted(data.lanes.length, 'GPU')}: nothing was counted in this time.</p>
  const room = <p class="dim">{headroom(data)}</p>
  if (lines.length <= LINES_MOST) {
    return (
      <>
        <Chart {...shared} title="PCIe of GPUs: bytes a second" times={data.times_ms} series={lines} unit="rate" height={150} />
        {room}
      </>
    )
  }
  return (
    <>
      {room}
      {(['out', 'in'] as const).map((way) => (
        <Shares
          key={way}
          {...shared}
          title={`PCIe of GPUs, ${way === 'out' ? 'sent' : 'received'}: share of the largest, ${rate(most)}`}
          times={data.times_ms}
          stepSeconds={data.step_seconds}
          rows={rowsOf(data, way)}
          scale={most}
          format={rate}
        />
      ))}
    </>
  )
}

/** What is left of the fullest slot, each way: a broadcast from the host's memory can use no more. Empty where no slot's speed is known. */
export function headroom(data: Pick<JobLanes, 'lanes'>): string {
  const ways = (['in', 'out'] as const).flatMap((way) => {
    const used = data.lanes.flatMap((lane) => {
      const values = lane.series.find((s) => s.name === way)?.values.filter((v) => v !== null) ?? []
      return lane.bytes_per_second === null || values.length === 0 ? [] : [{ lane, most: Math.max(...values), speed: lane.bytes_per_second }]
    })
    const fullest = used.sort((a, b) => b.most / b.speed - a.most / a.speed)[0]
    if (fullest === undefined) return []
    const left = Math.max(0, fullest.speed - fullest.most)
    return [`${way === 'in' ? 'to a GPU' : 'from a GPU'} ${rate(left)} of ${rate(fullest.speed)} were free at the fullest moment (${fullest.lane.name}, ${percent(fullest.most / fullest.speed)} used)`]
  })
  return ways.length === 0 ? '' : `PCIe headroom: ${ways.join('; ')}. Speeds are those of the slots; packet headers take some of them.`
}

/** Links on its way: how full they are, the job's part of that, and how long data waits. */
export function LinkLanes({ data, ...shared }: Shared & { data: JobLanes }) {
  if (data.lanes.length === 0) return null
  const of = { times: data.times_ms, stepSeconds: data.step_seconds, scale: 1, format: percent }
  const windows = { ...of, times: data.window_times_ms, stepSeconds: data.window_seconds ?? data.step_seconds }
  const more = data.left_out === 0 ? '' : ` (${data.left_out} more were used less)`
  return (
    <>
      <Shares {...shared} {...of} title={`Links on its way: how full they are${more}`} rows={rowsOf(data, 'used')} />
      <Shares {...shared} {...windows} title="Links on its way: this job's part, share of their speed" rows={rowsOf(data, 'own')} />
      <Shares {...shared} {...of} title="Links on its way: share of time in which data waits to be sent" rows={rowsOf(data, 'waiting')} />
    </>
  )
}

interface SharesProps extends Shared {
  title: string
  times: readonly number[]
  stepSeconds: number
  rows: ReturnType<typeof rowsOf>
  scale: number
  format: (value: number | null) => string
}

function Shares({ rows, scale, ...props }: SharesProps) {
  const palette = colours(props.preferences.palette, props.preferences.theme).map((c) => rgb(c).map((n) => n * 255) as [number, number, number])
  return <Strip {...props} rows={rows} colour={(value) => palette[step('utilisation', value / scale)] as [number, number, number]} />
}

/** How well all of it is aligned. */
export function Bounds({ lanes }: { lanes: readonly (JobLanes | undefined)[] }) {
  const text = bounds(lanes.flatMap((data) => data?.clocks ?? []))
  if (text === '') return null
  return (
    <p class="dim" data-testid="bounds">
      How well this is aligned: MPI by the nodes' clocks in bins of 0.1 s. {text} A change lies within a step, or the distance of two readings.
    </p>
  )
}
