// Rows of things that have a time and no value: events as ticks, what lasts as bars. It is a chart of uPlot, so that its time axis,
// pointer and zoom are those of the charts around it. What is under the pointer is written out; a list has all of it.
import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import type { Theme } from '../colour.ts'
import { clock, counted } from '../text.ts'
import { axes, namesAxis, selected, spanOf } from './chart.tsx'
import type { Preferences } from './preferences.ts'

/** How much it matters. */
export type Tone = 'bad' | 'warn' | 'plain' | 'good'

export interface Span {
  /** ms since 1970. */
  from: number
  /** The same for a moment. */
  to: number
  text: string
  tone: Tone
}

export interface SpanRow {
  name: string
  spans: readonly Span[]
}

interface Props {
  title: string
  rows: readonly SpanRow[]
  span: readonly [number, number]
  preferences: Preferences
  group: string
  zoomed?: (from: number, to: number) => void
}

const ROW_PX = 18
/** Marks are at least so wide, and found so near to the pointer. */
const MARK_PX = 3
const NEAR_PX = 6

const TONES: Record<Theme, Record<Tone, string>> = {
  light: { bad: '#cf1f1f', warn: '#c96a00', plain: '#4b5563', good: '#1d7a32' },
  dark: { bad: '#ff6b6b', warn: '#ff9d2e', plain: '#aab4c2', good: '#35a54f' },
}

export function Spans(props: Props) {
  const { title, rows, preferences, group } = props
  const place = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot | null>(null)
  const [under, setUnder] = useState<Span | null>(null)
  const latest = useRef(props)
  latest.current = props
  const height = rows.length * ROW_PX + 34
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
          namesAxis(preferences, () => Array.from({ length: count }, (_, i) => i + 0.5), (row) => latest.current.rows[row]?.name ?? ''),
        ],
        series: [{}, { show: true, stroke: 'transparent', points: { show: false } }],
        hooks: {
          draw: [(u) => draw(u, latest.current)],
          setSelect: [(u) => selected(u, latest.current.zoomed)],
          setCursor: [(u) => setUnder(spanAt(u, latest.current))],
        },
      },
      ends(latest.current.span),
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
  }, [rows.length, height, group, preferences.theme])
  useEffect(() => chart.current?.setData(ends(props.span)), [rows, props.span[0], props.span[1]])
  const all = rows.reduce((sum, row) => sum + row.spans.length, 0)
  return (
    <figure class="chart">
      <figcaption>
        {title}
        {under !== null && (
          <span class="reading">
            {' '}
            {times(under)}: {under.text}
          </span>
        )}
      </figcaption>
      <div ref={place} role="img" aria-label={`${title}: ${rows.map((row) => `${row.name} ${counted(row.spans.length, 'mark')}`).join(', ')}`} />
      <details>
        <summary>{counted(all, 'mark')} as a list</summary>
        <ul class="marks">
          {rows.flatMap((row) =>
            row.spans.map((span, i) => (
              <li key={`${row.name} ${i}`}>
                <span class="dim">{times(span)}</span> {row.name}: {span.text}
              </li>
            )),
          )}
        </ul>
      </details>
    </figure>
  )
}

const ends = (span: readonly [number, number]) => [[span[0] / 1000, span[1] / 1000], [null, null]] as unknown as uPlot.AlignedData
const times = (span: Span) => (span.to > span.from ? `${clock(span.from)} to ${clock(span.to)}` : clock(span.from))

/** The one nearest to the pointer in its row. */
export function nearest(spans: readonly Span[], time: number, near: number): Span | null {
  let best: Span | null = null
  let least = near
  for (const span of spans) {
    const away = time < span.from ? span.from - time : Math.max(time - span.to, 0)
    if (away <= least) {
      best = span
      least = away
    }
  }
  return best
}

function spanAt(u: uPlot, props: Props): Span | null {
  const { left, top } = u.cursor
  if (left === undefined || top === undefined || left === null || top === null || left < 0 || top < 0) return null
  const time = u.posToVal(left, 'x') * 1000
  const row = props.rows[Math.floor(u.posToVal(top, 'y'))]
  const near = ((props.span[1] - props.span[0]) / Math.max(u.over.clientWidth, 1)) * NEAR_PX
  return row === undefined ? null : nearest(row.spans, time, near)
}

function draw(u: uPlot, { rows, preferences }: Props): void {
  const { ctx, bbox } = u
  const tones = TONES[preferences.theme]
  const height = bbox.height / Math.max(rows.length, 1)
  ctx.save()
  ctx.beginPath()
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height)
  ctx.clip()
  rows.forEach((row, i) => {
    for (const span of row.spans) {
      const from = u.valToPos(span.from / 1000, 'x', true)
      const to = u.valToPos(span.to / 1000, 'x', true)
      const width = Math.max(to - from, MARK_PX * devicePixelRatio)
      // One at the end of the axis stays inside.
      const left = Math.min(from, bbox.left + bbox.width - width)
      ctx.fillStyle = tones[span.tone]
      ctx.fillRect(left, bbox.top + i * height + height * 0.2, width, height * 0.6)
    }
  })
  ctx.restore()
}
