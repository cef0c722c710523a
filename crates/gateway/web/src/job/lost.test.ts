import { expect, test } from 'vitest'
import { firstLost } from './page.tsx'

test('who ended first', () => {
  const lost = { rank: 3, host: 'n2', end_ms: 1_790_000_000_000, operation: 'recv', operation_seconds: 12, ranks: 4, next_after_seconds: 2 }
  expect(firstLost({ first_lost: null })).toBe(null)
  const text = firstLost({ first_lost: lost })
  expect(text).toContain('rank 3 on n2 without MPI_Finalize')
  expect(text).toContain('in recv for 12')
  expect(text).toContain('3 more, the next 2')
  expect(firstLost({ first_lost: { ...lost, operation: null, operation_seconds: null, ranks: 1, next_after_seconds: null } })).not.toContain('more')
})
