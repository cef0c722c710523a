// What stands on a job's time axis beside its MPI calls, made ready for drawing.
import type { Events, JobLanes, JobVerdicts } from '../api/client.ts'
import type { Span, SpanRow, Tone } from '../shell/spans.tsx'
import type { StripRow } from '../shell/strip.tsx'
import { duration, percent } from '../text.ts'
import { type OwnGpus, concerns } from './gpus.ts'
import { verdictName } from './verdicts.tsx'

type Event = Events['events'][number]
export type Clock = JobLanes['clocks'][number]

/** Values of one name of each lane, a row each; `null` where it was not read. */
export function rowsOf(data: JobLanes, name: JobLanes['lanes'][number]['series'][number]['name']): StripRow[] {
  return data.lanes.flatMap((lane) => {
    const series = lane.series.find((s) => s.name === name)
    return series === undefined ? [] : [{ name: lane.name, short: labelOf(lane), values: series.values }]
  })
}

/** What stands beside the axis: a GPU, of a link the end that sends. */
function labelOf(lane: JobLanes['lanes'][number]): string {
  return lane.kind === 'pcie' ? lane.name.replace(' PCIe', '') : (lane.name.split(' ')[0] ?? '')
}

/** A verdict may be said after the end of the axis: it then stands at the end. */
const within = (time: number, span: readonly [number, number]) => Math.min(Math.max(time, span[0]), span[1])

/** An event of this job, of one of its nodes and GPUs, or of the fabric; others are not shown. */
export function rowOfEvent(event: Event, job: string, hosts: readonly string[], gpus: OwnGpus): 'job' | 'nodes' | 'fabric' | null {
  if (event.job_key !== null) return event.job_key === job ? 'job' : null
  if (hosts.includes(event.instance)) return concerns(gpus, event.instance, event.gpu) ? 'nodes' : null
  return event.guid !== null || event.instance.startsWith('0x') ? 'fabric' : null
}

const toneOf = (severity: string): Tone => (severity === 'error' ? 'bad' : severity === 'warning' ? 'warn' : 'plain')

/** Verdicts, a row each kind, and events of the job, its nodes and the fabric; empty rows are left out. */
export function happened(job: string, hosts: readonly string[], gpus: OwnGpus, verdicts: JobVerdicts | undefined, events: Events | undefined, span: readonly [number, number]): SpanRow[] {
  const rows = new Map<string, Span[]>()
  const add = (row: string, span: Span) => rows.set(row, [...(rows.get(row) ?? []), span])
  for (const v of verdicts?.verdicts ?? []) {
    if (v.kind === 'nothing_found') continue
    const cost = v.cost === null ? '' : `, costs ${percent(v.cost)} of the ranks' time`
    add(verdictName(v.kind), { from: within(v.first_ms, span), to: within(v.last_ms, span), text: `${v.observation} (${v.confidence}${cost})`, tone: v.kind === 'hung' ? 'bad' : 'warn' })
  }
  for (const event of events?.events ?? []) {
    const row = rowOfEvent(event, job, hosts, gpus)
    if (row !== null) add(row, { from: event.time_ms, to: event.time_ms, text: event.text, tone: toneOf(event.severity) })
  }
  return [...rows].map(([name, spans]) => ({ name, spans }))
}

/** How well the lanes are aligned, in one sentence: distances of readings by who reads, and errors of clocks. */
export function bounds(clocks: readonly Clock[]): string {
  const intervals = new Map<string, number>()
  for (const { source, interval_seconds } of clocks.flatMap((clock) => clock.sources)) {
    if (SOURCES[source] !== undefined) intervals.set(source, Math.max(intervals.get(source) ?? 0, interval_seconds))
  }
  const read = [...intervals].map(([source, seconds]) => `${SOURCES[source]} each ${Number(seconds.toPrecision(2))} s`)
  const errors = clocks.flatMap((clock) => (clock.clock_error_seconds === null ? [] : [clock.clock_error_seconds]))
  const unknown = clocks.length - errors.length
  const clockParts = [
    ...(errors.length === 0 ? [] : [`within ${fine(Math.max(...errors))} of UTC`]),
    ...(unknown === 0 ? [] : [`${errors.length === 0 ? '' : `${unknown} `}of unknown error`]),
  ]
  const parts = [...(read.length === 0 ? [] : [`Read: ${read.join(', ')}.`]), ...(clocks.length === 0 ? [] : [`Clocks: ${clockParts.join(', ')}.`])]
  return parts.join(' ')
}

const SOURCES: Record<string, string | undefined> = { nvml: 'GPUs', nvml_gpm: 'PCIe', dcgm: 'GPUs (DCGM)', amd_smi: 'GPUs', level_zero: 'GPUs', sysfs: 'ports of nodes', mad: 'ports of the fabric' }

/** Seconds below a second with the unit that fits. */
export function fine(seconds: number): string {
  if (seconds >= 1) return duration(seconds)
  return seconds >= 1e-3 ? `${(seconds * 1e3).toFixed(1)} ms` : `${(seconds * 1e6).toFixed(0)} µs`
}
