import { expect, test } from 'vitest'
import type { Events } from '../api/client.ts'
import { shown } from './happened.ts'

test('faults of GPUs, pauses and warnings are shown, and what only counts is not', () => {
  const of = (kind: string, severity: string) => ({ kind, severity }) as Events['events'][number]
  const all = [of('gpu.xid', 'info'), of('source.paused', 'info'), of('source.up', 'info'), of('counter.cleared', 'info'), of('link.down', 'warning'), of('mpi.job', 'debug')]
  expect(shown(all).map((event) => event.kind)).toEqual(['gpu.xid', 'source.paused', 'link.down'])
})
