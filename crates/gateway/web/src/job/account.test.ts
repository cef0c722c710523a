import { expect, test } from 'vitest'
import { between, course, sentence, share } from './account.tsx'

test('bounds are shown where they differ, and shares are of all time', () => {
  expect(between({ seconds: 10, low: 10, high: 10 })).toBe('')
  expect(between({ seconds: 10, low: 5, high: 20 })).toContain(' to ')
  const of = {
    elapsed_seconds: 40,
    lines: [
      { line: 'in_file' as const, group: 'off_processor' as const, seconds: 5, low: 5, high: 5 },
      { line: 'asleep' as const, group: 'off_processor' as const, seconds: 5, low: 5, high: 5 },
      { line: 'computing' as const, group: 'computing' as const, seconds: 30, low: 30, high: 30 },
    ],
  }
  expect(share(of, (line) => line.group === 'off_processor')).toBe(0.25)
  expect(share({ ...of, elapsed_seconds: 0 }, (line) => line.line === 'in_file')).toBe(null)
})

test('steps are parts of what is known of them', () => {
  const steps = {
    job_key: 'slurm:1@2',
    node: null,
    from_ms: 0,
    step_ms: 10_000,
    time_ms: [10_000, 20_000],
    elapsed_seconds: [40, 0],
    lines: [{ line: 'in_mpi' as const, group: 'in_mpi' as const, seconds: [10, 0] }],
    off_in_mpi_seconds: [0, 0],
    waiting_for_core_in_mpi_seconds: [0, 0],
  }
  expect(course(steps)).toEqual([{ name: 'In MPI', values: [0.25, null] }])
})

test('what changed is a sentence', () => {
  const of = { line: 'in_file' as const, trend: 'grows' as const, time_ms: 0, before: 0.25, since: 0.5 }
  expect(sentence(of)).toMatch(/^In a file: grows since .*: 50.* of the time, 25.* before\.$/)
  expect(sentence({ ...of, trend: 'only_at_start' })).toMatch(/^In a file: only at the start: 25/)
})
