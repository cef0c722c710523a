// Lines over time, drawn by uPlot: one way for all pages. Charts of one group share the pointer's time and the zoom.
// A table of the last values replaces the drawing for screen readers.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { stacked } from '../shares.ts'
import { bytes, clock, duration, mark, percent, rate, short, used } from '../text.ts'
import type { Preferences } from './preferences.ts'

export interface Series {
  name: string
  values: readonly (number | null)[]
}
export type Unit = 'share' | 'used' | 'rate' | 'bytes' | 'count' | 'seconds'

/** Line colours that colour-blind readers can tell apart (Okabe and Ito's order, adapted to each ground). */
export const LINES = {
  light: ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#8a6d00', '#3a9bd0', '#5b5b5b', '#8c2d04'],
  dark: ['#56b4e9', '#ff8f3f', '#2fd1a2', '#e59ac5', '#f0e442', '#9ccbff', '#c2c2c2', '#ffb48a'],
}
export const AXES = { light: { ink: '#4b5563', grid: '#e5e8ee' }, dark: { ink: '#aab4c2', grid: '#29303a' } }
/** Room for the numbers or names of the y axis: the same in all charts, so that times stand under each other. */
export const AXIS_PX = 72

export const FORMAT: Record<Unit, (value: number | null) => string> = {
  share: percent,
  used,
  rate,
  bytes,
  count: (value) => short(value),
  seconds: duration,
}

interface Props {
  title: string
  times: readonly number[]
  series: readonly Series[]
  unit: Unit
  height: number
  preferences: Preferences
  /** Charts of the same group move the pointer together. */
  group?: string
  /** First and last time of the axis, ms since 1970; without it, those of the values. */
  span?: readonly [number, number]
  /** Areas on each other instead of lines. */
  isStacked?: boolean
  /** Chosen by dragging over the chart, ms since 1970. */
  zoomed?: (from: number, to: number) => void
}

export function Chart({ title, times, series, unit, height, preferences, group, span, zoomed, isStacked = false }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const zoom = useRef(zoomed)
  zoom.current = zoomed
  const spanned = useRef(span)
  spanned.current = span
  const names = series.map((s) => s.name).join('\n')
  const drawn = isStacked ? stacked(series.map((s) => s.values)) : series.map((s) => [...s.values])
  const data = () => [times.map((t) => t / 1000), ...drawn] as uPlot.AlignedData
  const latest = useRef(series)
  latest.current = series
  useEffect(() => {
    const box = place.current
    if (box === null) return undefined
    const lines = LINES[preferences.theme]
    const made = new uPlot(
      {
        width: Math.max(box.clientWidth, 120),
        height,
        legend: { live: true },
        cursor: { drag: { x: true, y: false, setScale: false }, ...(group === undefined ? {} : { sync: { key: group } }) },
        scales: { x: { range: (_u, low, high) => spanOf(spanned.current, low, high) }, y: { range: (_u, _low, high) => [0, topOf(unit, high)] } },
        axes: axes(preferences, unit),
        series: [
          { value: (_u, t) => (t === null ? '–' : clock(t * 1000)) },
          ...series.map((s, i) => ({
            label: s.name,
            stroke: lines[i % lines.length] as string,
            width: 1.5,
            ...(isStacked ? { fill: lines[i % lines.length] as string } : {}),
            points: { show: false },
            // Of areas their own height, not where they end.
            value: (_u: uPlot, v: number | null, _series: number, at: number | null) => FORMAT[unit](isStacked ? (at === null ? null : (latest.current[i]?.values[at] ?? null)) : v),
          })),
        ],
        // Each area ends where the one below it does.
        ...(isStacked ? { bands: series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as uPlot.Band.Bounds })) } : {}),
        hooks: { setSelect: [(u) => selected(u, zoom.current)] },
      },
      data(),
      box,
    )
    // The drawing has a name of its own; its parts are for the eye.
    made.root.setAttribute('aria-hidden', 'true')
    chart.current = made
    const sizes = new ResizeObserver(() => made.setSize({ width: Math.max(box.clientWidth, 120), height }))
    sizes.observe(box)
    return () => {
      sizes.disconnect()
      made.destroy()
      chart.current = null
    }
  }, [names, unit, height, group, isStacked, preferences.theme])
  useEffect(() => chart.current?.setData(data()), [times, series, span?.[0], span?.[1]])
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}: ${series.map((s) => `${s.name} at most ${FORMAT[unit](largest(s.values))}`).join(', ')}`} />
    </figure>
  )
}

/** The upper end of the y axis. No axis of what a link can carry goes beyond all of it. */
function topOf(unit: Unit, high: number | null): number {
  if (unit === 'used') return Math.min(Math.max(high ?? 0, 0.05) * 1.05, 1.05)
  if (unit === 'count' && (high ?? 0) <= 0) return 1
  return unit === 'share' ? Math.max(high ?? 0, 0.05) * 1.05 : Math.max(high ?? 0, 1e-9) * 1.1
}

/** Ends of the time axis in seconds: those that were chosen, else those of the values. */
export function spanOf(span: readonly [number, number] | undefined, low: number | null, high: number | null): [number, number] {
  if (span !== undefined) return [span[0] / 1000, span[1] / 1000]
  return [low ?? 0, high ?? 1]
}

/** Axes with times of this machine's zone below and values of the unit at the left. */
export function axes(preferences: Preferences, unit: Unit): uPlot.Axis[] {
  const { ink, grid } = AXES[preferences.theme]
  const shared = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '11px system-ui, sans-serif' }
  return [
    { ...shared, size: 28, values: (_u, splits, _axis, _space, step) => splits.map((v) => mark(v, step)) },
    { ...shared, size: AXIS_PX, values: (_u, splits) => splits.map((v) => FORMAT[unit](v)), space: 26 },
  ]
}

const NAMES_FONT = '10px system-ui, sans-serif'
const NAMES_MOST_PX = AXIS_PX - 8

/** The y axis of charts with a row for each name; `at` are places in rows. */
export function namesAxis(preferences: Preferences, at: () => number[], nameOf: (row: number) => string): uPlot.Axis {
  const pen = document.createElement('canvas').getContext('2d')
  if (pen !== null) pen.font = NAMES_FONT
  const fits = (text: string) => pen === null || pen.measureText(text).width <= NAMES_MOST_PX
  return {
    stroke: AXES[preferences.theme].ink,
    size: AXIS_PX,
    font: NAMES_FONT,
    ticks: { show: false },
    grid: { show: false },
    splits: at,
    values: (_u, list) => list.map((v) => fitted(nameOf(Math.floor(v)), fits)),
  }
}

/** A name with its middle left out until it fits: names differ at their ends. */
export function fitted(name: string, fits: (text: string) => boolean): string {
  let text = name
  for (let kept = name.length - 1; kept > 1 && !fits(text); kept -= 1) {
    text = `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(name.length - Math.floor(kept / 2))}`
  }
  return text
}

/** Reports a range that was dragged over, and removes its mark. */
export function selected(u: uPlot, report: ((from: number, to: number) => void) | undefined): void {
  if (u.select.width < 4) return
  const from = u.posToVal(u.select.left, 'x') * 1000
  const to = u.posToVal(u.select.left + u.select.width, 'x') * 1000
  u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
  report?.(Math.floor(from), Math.ceil(to))
}

function largest(values: readonly (number | null)[]): number | null {
  return values.reduce<number | null>((high, v) => (v === null ? high : Math.max(high ?? v, v)), null)
}
