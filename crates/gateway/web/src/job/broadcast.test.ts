import { expect, it } from 'vitest'
import type { Broadcast } from '../api/client.ts'
import { slowestFirst } from './broadcast.tsx'

it('the slowest receiver is first, and who only sends is last', () => {
  const ranks = { rank: [0, 1, 2, 3], received_high_bytes: [0, 10, 10, 10], high_bytes_per_second: [0, 20, 5, null] } as unknown as Broadcast['ranks']
  expect(slowestFirst(ranks)).toEqual([2, 1, 0, 3])
})
