// The matrix of a job as numbers: from the API's cells to a picture and to the cell under the pointer. Pure.
import type { Matrix } from '../api/client.ts'
import { ramp } from '../colour.ts'

/** Least and largest side of the drawing, pixels. */
const SIDE_LEAST = 400
const SIDE_MOST = 1024

/** Side of the drawing in pixels: large enough that each of up to 1,024 rows has one. */
export const sideOf = (size: number) => Math.min(Math.max(size, SIDE_LEAST), SIDE_MOST)

/** Values row by row; 0 where nothing was sent. */
export function dense(matrix: Matrix): Float64Array {
  const values = new Float64Array(matrix.size * matrix.size)
  let at = -1
  matrix.cells.gap.forEach((gap, i) => {
    at += gap
    values[at] = matrix.cells.value[i] as number
  })
  return values
}

/** The least value that is not 0. */
export function smallest(values: Float64Array): number {
  let low = Number.POSITIVE_INFINITY
  for (const v of values) if (v > 0 && v < low) low = v
  return Number.isFinite(low) ? low : 0
}

/** Share from 0 to 1 of a value between the least and the largest, by its logarithm. */
export function logShare(value: number, low: number, high: number): number {
  if (value <= 0) return 0
  if (high <= low) return 1
  return (Math.log(value) - Math.log(low)) / (Math.log(high) - Math.log(low))
}

/** Colours of all cells, four bytes each; what sent nothing has the ground's colour. */
export function paint(values: Float64Array, ground: readonly [number, number, number]): Uint8ClampedArray<ArrayBuffer> {
  const pixels = new Uint8ClampedArray(values.length * 4)
  const low = smallest(values)
  const high = values.reduce((h, v) => Math.max(h, v), 0)
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i] as number
    // The darkest part of the ramp is left to what is nearly nothing: it must differ from the ground.
    const [r, g, b] = value > 0 ? ramp(0.12 + 0.88 * logShare(value, low, high)) : ground
    pixels.set([r, g, b, 255], i * 4)
  }
  return pixels
}

/** The cells with the most, as row, column and value. */
export function largestCells(values: Float64Array, size: number, count: number): { row: number; column: number; value: number }[] {
  const found: { row: number; column: number; value: number }[] = []
  let floor = 0
  values.forEach((value, i) => {
    if (value <= floor && found.length >= count) return
    if (value <= 0) return
    found.push({ row: Math.floor(i / size), column: i % size, value })
    // Stays small and is rarely sorted.
    if (found.length >= count * 8) {
      found.sort((a, b) => b.value - a.value)
      found.length = count
      floor = found[count - 1]?.value ?? 0
    }
  })
  return found.sort((a, b) => b.value - a.value).slice(0, count)
}

/** What a row or column is called. */
export function rowName(matrix: Matrix, i: number): string {
  const host = matrix.host_of[i]
  const name = host === null || host === undefined ? undefined : matrix.names[host]
  if (matrix.fold === 'node') return name ?? `node ${i}`
  return name === undefined ? `rank ${i}` : `rank ${i} on ${name}`
}
