import { expect, test } from 'vitest'
import { ApiError } from '../api/client.ts'
import { liveNote } from './shown.tsx'

const live = { job_key: 'a', has_ended: false, id: 1, live_seconds: 20, as_of_ms: 1000, nodes: 5, absent_nodes: 0, absent: [] }

test('nothing is said while all nodes answer', () => {
  expect(liveNote(undefined, undefined)).toBeNull()
  expect(liveNote(live, undefined)).toBeNull()
  expect(liveNote({ ...live, has_ended: true, absent_nodes: 1 }, undefined)).toBeNull()
})

test('what does not answer is named, and why a job is not shown live', () => {
  const absent = ['n1', 'n2', 'n3', 'n4'].map((node) => ({ node, time_ms: null }))
  expect(liveNote({ ...live, absent_nodes: 4, absent }, undefined)).toBe(
    '4 of 5 nodes do not answer now, and have their newest figures in the sums: n1 (nothing yet), n2 (nothing yet), n3 (nothing yet), 1 more.',
  )
  expect(liveNote({ ...live, as_of_ms: null, absent_nodes: 5, absent }, undefined)).toMatch(/^No node of the job/)
  const ninth = new ApiError(429, 'over_limit', '8 other jobs are shown live, the most at a time', 'try again in half a minute')
  expect(liveNote(undefined, ninth)).toBe(
    'Figures are the stored ones, not those of now: 8 other jobs are shown live, the most at a time; try again in half a minute.',
  )
})
