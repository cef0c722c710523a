import { expect, test } from 'vitest'
import { hasAll, isRecorded, outcome } from './record.tsx'

const node = (host: string, state: 'done' | 'refused', remark: string | null) => ({
  host,
  state,
  records: 100,
  recorded_from_ms: null,
  damaged: 0,
  refusal: null,
  remark,
  done_ms: null,
})
const request = {
  id: 1,
  requested_ms: 0,
  requested_by: 'local:0',
  reason: 'person' as const,
  from_ms: 0,
  to_ms: 1,
  resolution_seconds: 0,
  expires_ms: 2,
  is_open: false,
  records: 200,
}

test('what became of a request', () => {
  expect(outcome({ ...request, nodes: [node('n1', 'done', null)] })).toBe('200 records')
  expect(outcome({ ...request, is_open: true, nodes: [] })).toBe('200 records so far')
  const text = outcome({ ...request, nodes: [node('n1', 'done', null), node('n2', 'refused', 'it is switched off')] })
  expect(text).toBe('200 records; 1 of 2 nodes: it is switched off')
})

test('what nodes have of a range is fetched once', () => {
  const now = 10_000_000
  expect([isRecorded([now - 60_000, now], now), isRecorded([now - 700_000, now], now), isRecorded([1, 60_000], now)]).toEqual([true, false, false])
  const whole = { ...request, from_ms: 0, to_ms: 1000, nodes: [node('n1', 'done', null)] }
  expect(hasAll(whole, [100, 900], now)).toBe(true)
  expect(hasAll(whole, [100, 1100], now)).toBe(false)
  expect(hasAll({ ...whole, resolution_seconds: 1 }, [100, 900], now)).toBe(false)
  expect(hasAll({ ...whole, nodes: [node('n1', 'done', null), node('n2', 'refused', null)] }, [100, 900], now)).toBe(false)
})
