import { expect, test } from 'vitest'
import { seconds } from './waits.tsx'

test('bounds stand where they are wide', () => {
  expect(seconds({ seconds: 0, low: 0, high: 0 })).toBe('')
  expect(seconds({ seconds: 12, low: 11.9, high: 12.1 })).not.toContain('to')
  expect(seconds({ seconds: 12, low: 6, high: 20 })).toContain(' to ')
})
