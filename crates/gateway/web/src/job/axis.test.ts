import { expect, test } from 'vitest'
import type { Events, JobVerdicts } from '../api/client.ts'
import { nearest } from '../shell/spans.tsx'
import { bounds, fine, happened } from './axis.ts'

const event = (over: Partial<Events['events'][number]>): Events['events'][number] => ({
  time_ms: 5, instance: 'n1', source: 's', kind: 'k', severity: 'info', text: 't', guid: null, port: null, remote_guid: null,
  remote_port: null, gpu: null, job_key: null, before: null, after: null, ...over,
})

test('only what concerns the job stands on its axis', () => {
  const events = [event({ text: 'own', job_key: 'j' }), event({ job_key: 'other' }), event({ text: 'node', severity: 'error' }), event({ text: 'own GPU', gpu: 'GPU-0' }), event({ gpu: 'GPU-1' }), event({ instance: 'n9' }), event({ instance: '0xfe80', guid: '0x1', text: 'link' })]
  const own = new Map([['n1', new Set(['GPU-0'])]])
  const verdicts: JobVerdicts = {
    job_key: 'j', judged_ms: 9, is_final: false,
    verdicts: (['hung', 'nothing_found'] as const).map((kind) => ({
      kind, subject: 'job', observation: 'o', remedy: 'r', confidence: 'certain' as const, cost: 0.5, other_job: null, is_now: true, first_ms: 1, last_ms: 1, facts: [],
    })),
  }
  const rows = happened('j', ['n1'], own, verdicts, { from_ms: 0, to_ms: 9, events, next: null }, [0, 9])
  expect(rows.map((row) => [row.name, row.spans.map((s) => [s.text, s.tone])])).toEqual([
    ['hung', [['o (certain, costs 50 % of the ranks\' time)', 'bad']]],
    ['job', [['own', 'plain']]],
    ['nodes', [['node', 'bad'], ['own GPU', 'plain']]],
    ['fabric', [['link', 'plain']]],
  ])
})

test('bounds name who reads how often, and clocks whose error nobody knows', () => {
  const clock = (clock_error_seconds: number | null, interval_seconds: number) => ({ instance: 'n', clock_error_seconds, sources: [{ source: 'sysfs', interval_seconds }, { source: 'mpi', interval_seconds: 0.1 }] })
  expect(bounds([clock(0.00084, 1), clock(null, 2)])).toBe('Read: ports of nodes each 2 s. Clocks: within 840 µs of UTC, 1 of unknown error.')
  expect(bounds([clock(null, 1)])).toContain('Clocks: of unknown error.')
  expect(bounds([])).toBe('')
  expect([fine(0.0042), fine(0.00001)]).toEqual(['4.2 ms', '10 µs'])
})

test('the mark under the pointer is the nearest one', () => {
  const span = (from: number, to: number) => ({ from, to, text: '', tone: 'plain' as const })
  const spans = [span(0, 10), span(20, 20)]
  expect(nearest(spans, 5, 2)).toBe(spans[0])
  expect(nearest(spans, 18, 2)).toBe(spans[1])
  expect(nearest(spans, 15, 2)).toBe(null)
})
