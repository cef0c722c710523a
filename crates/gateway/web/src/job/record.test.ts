import { expect, test } from 'vitest'
import { outcome } from './record.tsx'

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
