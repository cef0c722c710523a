// Areas on each other over time, with what was counted as their outline and the most that is possible as a line above: whose
// bytes were on a link. Drawn by uPlot as other charts are; the table beside it has the numbers.
import { useEffect, useMemo, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { stacked } from '../shares.ts'
import { clock, rate } from '../text.ts'
import { AXES, axes } from './chart.tsx'
import type { Preferences } from './preferences.ts'

export interface Area {
  name: string
  colour: string
  values: readonly (number | null)[]
}

interface Props {
  title: string
  times: readonly number[]
  /** From the bottom up. */
  areas: readonly Area[]
  /** What the port counted. */
  counted: readonly (number | null)[]
  /** Bytes a second that the link can carry; 0 where that is not known. */
  capacity: number
  height: number
  preferences: Preferences
}

/** From this share of it on, the axis goes up to what the link can carry; below, areas would be too thin to tell apart. */
const WHOLE_FROM = 0.2

export function Stack({ title, times, areas, counted, capacity, height, preferences }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const top = topOf(counted, areas, capacity)
  const latest = useRef({ top, areas })
  latest.current = { top, areas }
  const sums = useMemo(() => stacked(areas.map((a) => a.values)), [areas])
  const look = areas.map((a) => `${a.name}\t${a.colour}`).join('\n')
  const data = () => [times.map((t) => t / 1000), ...sums, [...counted], times.map(() => (capacity > 0 ? capacity : null))] as uPlot.AlignedData
  useEffect(() => {
    const box = place.current
    if (box === null) return undefined
    const { ink } = AXES[preferences.theme]
    const made = new uPlot(
      {
        width: Math.max(box.clientWidth, 120),
        height,
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: () => [0, latest.current.top] } },
        axes: axes(preferences, 'rate'),
        series: [
          { value: (_u, t) => (t === null ? '–' : clock(t * 1000)) },
          ...areas.map((a) => ({ label: a.name, stroke: a.colour, fill: a.colour, width: 0.5, points: { show: false } })),
          { label: 'counted', stroke: ink, width: 1.5, points: { show: false } },
          { label: 'capacity', stroke: ink, width: 1, dash: [6, 4], points: { show: false } },
        ],
        // Each area ends where the one below it does.
        bands: areas.slice(1).map((_, i) => ({ series: [i + 2, i + 1] as uPlot.Band.Bounds })),
      },
      data(),
      box,
    )
    made.root.setAttribute('aria-hidden', 'true')
    chart.current = made
    const sizes = new ResizeObserver(() => made.setSize({ width: Math.max(box.clientWidth, 120), height }))
    sizes.observe(box)
    return () => {
      sizes.disconnect()
      made.destroy()
      chart.current = null
    }
  }, [look, height, preferences.theme])
  useEffect(() => chart.current?.setData(data()), [times, sums, counted, capacity])
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={place} role="img" aria-label={`${title}: counted at most ${rate(Math.max(0, ...counted.map((v) => v ?? 0)))} of ${rate(capacity)}, by ${areas.map((a) => a.name).join(', ')}`} />
    </figure>
  )
}

/** The upper end of the axis: a little above what the link can carry, and never more. */
function topOf(counted: readonly (number | null)[], areas: readonly Area[], capacity: number): number {
  let high = 0
  counted.forEach((value, i) => {
    high = Math.max(high, value ?? areas.reduce((sum, a) => sum + (a.values[i] ?? 0), 0))
  })
  if (capacity <= 0) return Math.max(high, 1) * 1.1
  return high >= capacity * WHOLE_FROM ? capacity * 1.05 : Math.max(high, capacity * 0.001) * 1.1
}
