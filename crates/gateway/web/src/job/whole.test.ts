import { expect, test } from 'vitest'
import { inMpi, wholeOf } from './whole.ts'

const totals = { calls: 7, bytes: 0, mpi_seconds: 30, observed_seconds: 120, mpi_time_share: 0.25 }

test('shares of times have one basis, which has a name', () => {
  expect(wholeOf(totals)).toEqual({ seconds: 120, name: "Of ranks' time" })
  expect(inMpi(totals)).toBe("25 % of the ranks' time")
  expect(wholeOf(null)).toBeNull()
  expect(wholeOf({ ...totals, mpi_seconds: 0, observed_seconds: null, mpi_time_share: null })).toBeNull()
})

test('seconds of threads are not divided by those of ranks', () => {
  const threads = { ...totals, mpi_seconds: 90.1, observed_seconds: 12.2, mpi_time_share: null }
  expect(wholeOf(threads)).toEqual({ seconds: 90.1, name: 'Of MPI time' })
  expect(inMpi(threads)).toBe('1 min 30 s, summed over threads')
})

test('what the ranks ran may not be known', () => {
  expect(inMpi({ ...totals, observed_seconds: null, mpi_time_share: null })).toBe('30 s')
})
