// Who sent how much to whom: rank × rank, or node × node, by colour on a logarithmic scale, with the largest cells as
// a table beside it.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { type Matrix, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { ramp } from '../colour.ts'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status, Unknown } from '../shell/status.tsx'
import { asOf, bytes, moment, short } from '../text.ts'
import { oneOf, setQuery, unknownValues } from '../url.ts'
import { dense, largestCells, paint, rowName, sideOf, smallest } from './cells.ts'

const FOLDS = ['rank', 'node'] as const
const MEASURES = ['bytes', 'messages'] as const
/** Rows of the table of largest cells. */
const LISTED = 12
const GROUND = { light: [238, 241, 245], dark: [28, 33, 41] } as const

interface Props {
  job: string
  kinds: readonly string[]
  isLive: boolean
  query: URLSearchParams
  preferences: Preferences
}

export function MatrixView({ job, kinds, isLive, query, preferences }: Props) {
  const fold = oneOf(FOLDS, query.get('fold'))
  const measure = oneOf(MEASURES, query.get('measure'))
  const kind = kinds.find((k) => k === query.get('kind')) ?? kinds[0] ?? 'logical'
  const url = address(`/jobs/${part(job)}/matrix`, { fold, measure, kind })
  const live = useLive<Matrix>(url, isLive ? 5_000 : undefined)
  const data = live.data
  return (
    <section aria-label="Traffic between ranks">
      <div class="toolbar">
        <h2>{(data?.fold ?? fold) === 'node' ? 'Node × node' : 'Rank × rank'} <small>{asOf(data?.as_of ?? null)}</small></h2>
        <Choice name="fold" list={FOLDS} value={fold} titles={{ rank: 'ranks', node: 'folded by node' }} />
        <Choice name="measure" list={MEASURES} value={measure} titles={{}} />
        {kinds.length > 1 && <Choice name="kind" list={kinds} value={kind} titles={{ logical: 'by the calls', wire: 'messages of the library' }} />}
      </div>
      <Unknown list={unknownValues(query, { fold: FOLDS, measure: MEASURES, ...(kinds.length > 0 ? { kind: kinds } : {}) })} />
      <Status of={[live]} what="matrix" />
      {data && (
        <MaybeStale live={live}>
          {data.ranks_until_ms !== null && <p class="dim">Pairs of ranks are no longer kept, they were until {moment(data.ranks_until_ms)}; these are pairs of nodes.</p>}
          <Cells key={`${fold}${measure}${kind}`} matrix={data} preferences={preferences} />
        </MaybeStale>
      )}
    </section>
  )
}

function Choice({ name, list, value, titles }: { name: string; list: readonly string[]; value: string; titles: Record<string, string> }) {
  return (
    <div class="tabs" role="group" aria-label={name}>
      {list.map((item) => (
        <button key={item} type="button" aria-pressed={item === value} onClick={() => setQuery({ [name]: item === list[0] ? undefined : item })}>
          {titles[item] ?? item}
        </button>
      ))}
    </div>
  )
}

function Cells({ matrix, preferences }: { matrix: Matrix; preferences: Preferences }) {
  const values = useMemo(() => dense(matrix), [matrix])
  const [cell, setCell] = useState<{ row: number; column: number } | null>(null)
  const top = useMemo(() => largestCells(values, matrix.size, LISTED), [values])
  const format = (value: number) => (matrix.measure === 'bytes' ? bytes(value) : short(value))
  const name = (i: number) => rowName(matrix, i)
  if (matrix.size === 0 || matrix.cells.value.length === 0) return <p class="dim">No traffic between ranks was recorded.</p>
  const description = cell === null ? `${matrix.size} × ${matrix.size}; ${format(matrix.total)} in all, at most ${format(matrix.largest)} in a cell. Rows send, columns receive.` : `${name(cell.row)} to ${name(cell.column)}: ${format(values[cell.row * matrix.size + cell.column] as number)}`
  return (
    <div class="matrix">
      <div>
        <Drawing {...{ matrix, values, preferences, cell, setCell }} label={description} />
        <p role="status" class="cell" data-testid="cell">
          {description}
        </p>
        <Scale low={smallest(values)} high={matrix.largest} format={format} />
      </div>
      <div class="sideways">
        <table data-testid="largest">
          <caption>Largest cells</caption>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">To</th>
              <th scope="col" class="n">
                {matrix.measure}
              </th>
            </tr>
          </thead>
          <tbody>
            {top.map(({ row, column, value }) => (
              <tr key={`${row}.${column}`}>
                <td>{name(row)}</td>
                <td>{name(column)}</td>
                <td class="n">{format(value)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  )
}

interface DrawingProps {
  matrix: Matrix
  values: Float64Array
  preferences: Preferences
  cell: { row: number; column: number } | null
  setCell: (cell: { row: number; column: number } | null) => void
  label: string
}

/** The cells as pixels of a canvas that the style sheet enlarges without smoothing. Arrow keys move a cell. */
function Drawing({ matrix, values, preferences, cell, setCell, label }: DrawingProps) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const { size } = matrix
  useEffect(() => {
    const context = canvas.current?.getContext('2d')
    // Through the object model: the content security policy allows no style attributes.
    canvas.current?.style.setProperty('--side', `${sideOf(size)}px`)
    context?.putImageData(new ImageData(paint(values, GROUND[preferences.theme]), size, size), 0, 0)
  }, [values, preferences.theme])
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLCanvasElement).getBoundingClientRect()
    const column = Math.floor(((event.clientX - box.left) / box.width) * size)
    const row = Math.floor(((event.clientY - box.top) / box.height) * size)
    if (row >= 0 && row < size && column >= 0 && column < size) setCell({ row, column })
  }
  const key = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }
    const move = moves[event.key]
    if (event.key === 'Escape') setCell(null)
    if (move === undefined) return
    event.preventDefault()
    const from = cell ?? { row: 0, column: -1 }
    const clamp = (n: number) => Math.min(Math.max(n, 0), size - 1)
    setCell({ row: clamp(from.row + move[0]), column: clamp(from.column + move[1]) })
  }
  return (
    <canvas
      ref={canvas}
      class="cells"
      width={size}
      height={size}
      tabIndex={0}
      role="img"
      aria-label={`Matrix. ${label} Arrow keys move from cell to cell.`}
      data-testid="matrix"
      onPointerMove={point}
      onPointerLeave={() => setCell(null)}
      onKeyDown={key}
    />
  )
}

/** What the colours mean. */
function Scale({ low, high, format }: { low: number; high: number; format: (value: number) => string }) {
  const stops = 24
  return (
    <p class="scale">
      {format(low)}
      <svg width="192" height="10" aria-hidden="true">
        {Array.from({ length: stops }, (_, i) => {
          const [r, g, b] = ramp(0.12 + (0.88 * i) / (stops - 1))
          return <rect key={i} x={i * 8} width="8" height="10" fill={`rgb(${r},${g},${b})`} />
        })}
      </svg>
      {format(high)} (logarithmic)
    </p>
  )
}
