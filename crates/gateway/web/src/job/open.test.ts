import { expect, test } from 'vitest'
import { openFor, someOf } from './open.tsx'

test('how long and which', () => {
  expect(openFor({ shortest_seconds: 137.6, longest_seconds: 138.4 })).toBe('138 s')
  expect(openFor({ shortest_seconds: 12.2, longest_seconds: 138.4 })).toBe('12 to 138 s')
  expect(someOf([0, 1], 2)).toBe('0, 1')
  expect(someOf([0, 1], 1024)).toBe('0, 1, …')
})
