import { expect, test } from 'vitest'
import { figure, isOfBefore, verdictName } from './verdicts.tsx'

test('kinds are words and figures have units', () => {
  expect([verdictName('slow_rank'), verdictName('link_bound'), verdictName('hung')]).toEqual(['slow rank', 'link-bound', 'hung'])
  expect([figure(0.41, 'share'), figure(138.4, 's'), figure(2.345, '1'), figure(12_345, '1/s')]).toEqual(['41 %', '138 s', '2.3', '12,345 1/s'])
})

test('a verdict of before the end of its job has its time', () => {
  expect(isOfBefore({ last_ms: 5 }, { end_ms: null })).toBe(true)
  expect(isOfBefore({ last_ms: 5 }, { end_ms: 10 })).toBe(true)
  expect(isOfBefore({ last_ms: 60_000 }, { end_ms: 10 })).toBe(false)
})
