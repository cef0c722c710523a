import { expect, test } from 'vitest'
import { basis, seconds } from './waits.tsx'

test('bounds stand where they are wide', () => {
  expect(seconds({ seconds: 0, low: 0, high: 0 })).toBe('')
  expect(seconds({ seconds: 12, low: 11.9, high: 12.1 })).not.toContain('to')
  expect(seconds({ seconds: 12, low: 6, high: 20 })).toContain(' to ')
})

test('it is said how waiting is known', () => {
  expect(basis({ basis: 'exact', clock_error_seconds: 2e-6, trace_unused: null })).toBe('exact, from the trace, with clocks within 2 µs')
  expect(basis({ basis: 'exact', clock_error_seconds: 0, trace_unused: null })).toBe('exact, from the trace')
  expect(basis({ basis: 'estimated', clock_error_seconds: null, trace_unused: null })).toBe('estimated from counters and sampled calls')
  expect(basis({ basis: 'estimated', clock_error_seconds: null, trace_unused: '2 of 4 ranks are traced' })).toContain('not used: 2 of 4')
})
