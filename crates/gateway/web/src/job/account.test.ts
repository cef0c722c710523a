import { expect, test } from 'vitest'
import { between, share } from './account.tsx'

test('bounds are shown where they differ, and shares are of all time', () => {
  expect(between({ seconds: 10, low: 10, high: 10 })).toBe('')
  expect(between({ seconds: 10, low: 5, high: 20 })).toContain(' to ')
  const of = {
    elapsed_seconds: 40,
    lines: [
      { line: 'in_file' as const, seconds: 5, low: 5, high: 5 },
      { line: 'asleep' as const, seconds: 5, low: 5, high: 5 },
      { line: 'computing' as const, seconds: 30, low: 30, high: 30 },
    ],
  }
  expect(share(of, ['in_file', 'asleep'])).toBe(0.25)
  expect(share({ ...of, elapsed_seconds: 0 }, ['in_file'])).toBe(null)
})
