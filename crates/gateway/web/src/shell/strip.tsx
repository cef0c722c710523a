// A row for each rank or link, a column for each step of time, a colour for each value: for more rows than lines can
// show. It is a chart of uPlot, so that its time axis is that of the charts below it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { rgb } from '../colour.ts'
import { clock, counted } from '../text.ts'
import { AXES, axes, namesAxis, selected, spanOf } from './chart.tsx'
import type { Preferences } from './preferences.ts'

export interface StripRow {
  name: string
  /** Label at the axis. */
  short: string
  values: readonly (number | null)[]
}

interface Props {
  title: string
  times: readonly number[]
  stepSeconds: number
  span: readonly [number, number]
  rows: readonly StripRow[]
  /** Colour of a value, as bytes. */
  colour: (value: number) => readonly [number, number, number]
  format: (value: number | null) => string
  preferences: Preferences
  group: string
  chosen?: number | null
  choose?: (row: number) => void
  zoomed?: (from: number, to: number) => void
}

const ROW_PX = 14
const LEAST_PX = 90
const MOST_PX = 360
const UNKNOWN = { light: '#ffffff', dark: '#14181f' }

/** The picture of all values: one pixel each, rows from the top. */
export function pixels(rows: readonly StripRow[], columns: number, colour: Props['colour'], unknown: readonly [number, number, number]) {
  const data = new Uint8ClampedArray(Math.max(rows.length * columns, 1) * 4)
  rows.forEach((row, r) => {
    for (let c = 0; c < columns; c += 1) {
      const value = row.values[c]
      const [red, green, blue] = value === null || value === undefined ? unknown : colour(value)
      data.set([red, green, blue, 255], (r * columns + c) * 4)
    }
  })
  return data
}

export function Strip(props: Props) {
  const { title, times, rows, format, preferences, group } = props
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const [at, setAt] = useState<{ row: number; column: number } | null>(null)
  const latest = useRef(props)
  latest.current = props
  const height = Math.min(Math.max(rows.length * ROW_PX, LEAST_PX), MOST_PX) + 34
  const picture = useMemo(() => {
    const canvas = document.createElement('canvas')
    canvas.width = Math.max(times.length, 1)
    canvas.height = Math.max(rows.length, 1)
    const unknown = rgb(UNKNOWN[preferences.theme]).map((n) => n * 255) as [number, number, number]
    const data = pixels(rows, canvas.width, props.colour, unknown)
    if (rows.length > 0) canvas.getContext('2d')?.putImageData(new ImageData(data, canvas.width, canvas.height), 0, 0)
    return canvas
  }, [times, rows, preferences.theme, preferences.palette])
  const shown = useRef(picture)
  shown.current = picture
  useEffect(() => {
    const box = place.current
    if (box === null) return undefined
    const count = rows.length
    const [time] = axes(preferences, 'count')
    const made = new uPlot(
      {
        width: Math.max(box.clientWidth, 120),
        height,
        legend: { show: false },
        cursor: { drag: { x: true, y: false, setScale: false }, sync: { key: group, scales: ['x', null] }, points: { show: false } },
        scales: { x: { range: (_u, low, high) => spanOf(latest.current.span, low, high) }, y: { range: [0, count], dir: -1 } },
        axes: [
          time as uPlot.Axis,
          namesAxis(preferences, () => splits(count), (row) => latest.current.rows[row]?.short ?? ''),
        ],
        series: [{}, { show: true, stroke: 'transparent', points: { show: false } }],
        hooks: {
          draw: [(u) => drawCells(u, shown.current, latest.current)],
          setSelect: [(u) => selected(u, latest.current.zoomed)],
          setCursor: [(u) => setAt(cellAt(u, latest.current))],
        },
      },
      [times.map((t) => t / 1000), times.map(() => null)] as uPlot.AlignedData,
      box,
    )
    made.over.addEventListener('click', () => {
      const cell = cellAt(made, latest.current)
      if (cell !== null) latest.current.choose?.(cell.row)
    })
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
  }, [rows.length, height, group, preferences.theme])
  useEffect(
    () => chart.current?.setData([times.map((t) => t / 1000), times.map(() => null)] as uPlot.AlignedData),
    [times, picture, props.chosen, props.span[0], props.span[1]],
  )
  const row = at === null ? undefined : rows[at.row]
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {row !== undefined && at !== null && (
          <span class="reading">
            {' '}
            {row.name}, {clock(times[at.column] ?? 0)}: {format(row.values[at.column] ?? null)}
          </span>
        )}
      </figcaption>
      <div ref={place} role="img" aria-label={`${title}: ${counted(rows.length, 'row')}, ${counted(times.length, 'step')} of time`} />
    </figure>
  )
}

/** Rows that are labelled: all of a few, else some. */
function splits(count: number): number[] {
  const stride = Math.max(1, Math.ceil(count / 12))
  return Array.from({ length: Math.ceil(count / stride) }, (_, i) => i * stride + 0.5)
}

function cellAt(u: uPlot, props: Props): { row: number; column: number } | null {
  const { left, top } = u.cursor
  if (left === undefined || top === undefined || left === null || top === null || left < 0 || top < 0) return null
  const time = u.posToVal(left, 'x') * 1000
  // A step is named by its end.
  const column = props.times.findIndex((end) => time <= end)
  const row = Math.floor(u.posToVal(top, 'y'))
  return column < 0 || row < 0 || row >= props.rows.length ? null : { row, column }
}

function drawCells(u: uPlot, picture: HTMLCanvasElement, props: Props): void {
  const { times, stepSeconds, rows, chosen, preferences } = props
  const [first, last] = [times[0], times[times.length - 1]]
  if (first === undefined || last === undefined || rows.length === 0) return
  const left = u.valToPos(first / 1000 - stepSeconds, 'x', true)
  const right = u.valToPos(last / 1000, 'x', true)
  const { ctx, bbox } = u
  ctx.save()
  ctx.beginPath()
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height)
  ctx.clip()
  ctx.imageSmoothingEnabled = false
  ctx.drawImage(picture, left, bbox.top, right - left, bbox.height)
  if (chosen !== null && chosen !== undefined) {
    ctx.strokeStyle = AXES[preferences.theme].ink
    ctx.lineWidth = 2
    const height = bbox.height / rows.length
    ctx.strokeRect(bbox.left + 1, bbox.top + chosen * height, bbox.width - 2, Math.max(height, 3))
  }
  ctx.restore()
}
