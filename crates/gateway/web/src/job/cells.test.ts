import { expect, it } from 'vitest'
import type { Matrix } from '../api/client.ts'
import { dense, largestCells, logShare, paint, rowName, sideOf, smallest } from './cells.ts'

const matrix: Matrix = {
  job_key: 'j',
  kind: 'logical',
  measure: 'bytes',
  as_of: null,
  fold: 'rank',
  ranks_until_ms: null,
  size: 3,
  names: ['n1', 'n2'],
  host_of: [0, 0, 1],
  total: 1111,
  largest: 1000,
  // Cells (0,1), (0,2) and (2,0).
  cells: { gap: [2, 1, 4], value: [1, 1000, 110] },
}

it('unpacks cells by their gaps', () => {
  expect([...dense(matrix)]).toEqual([0, 1, 1000, 0, 0, 0, 110, 0, 0])
  expect([...dense({ ...matrix, cells: { gap: [1], value: [7] } })][0]).toBe(7)
})
it('scales by the logarithm and leaves the ground where nothing was sent', () => {
  expect(logShare(1, 1, 1000)).toBe(0)
  expect(logShare(1000, 1, 1000)).toBeCloseTo(1)
  expect(logShare(31.6227766, 1, 1000)).toBeCloseTo(0.5)
  expect(logShare(5, 5, 5)).toBe(1)
  const values = dense(matrix)
  expect(smallest(values)).toBe(1)
  const pixels = paint(values, [9, 9, 9])
  expect([...pixels.slice(0, 4)]).toEqual([9, 9, 9, 255])
  expect([...pixels.slice(8, 11)]).toEqual([253, 231, 37])
})
it('finds the largest cells of many', () => {
  expect(largestCells(dense(matrix), 3, 2)).toEqual([{ row: 0, column: 2, value: 1000 }, { row: 2, column: 0, value: 110 }])
  const many = Float64Array.from({ length: 10_000 }, (_, i) => (i * 7919) % 10_007)
  const best = [...many].sort((a, b) => b - a).slice(0, 12)
  expect(largestCells(many, 100, 12).map((c) => c.value)).toEqual(best)
})
it('names ranks with their host and nodes by theirs', () => {
  expect(rowName(matrix, 2)).toBe('rank 2 on n2')
  expect(rowName({ ...matrix, fold: 'node' }, 1)).toBe('n1')
  expect(rowName({ ...matrix, host_of: [null, null, null] }, 1)).toBe('rank 1')
})

it('gives each of 1,024 ranks a point of the picture', () => {
  expect([4, 400, 700, 1024, 5000].map(sideOf)).toEqual([400, 400, 700, 1024, 1024])
})
