import { expect, test } from 'vitest'
import { contested } from './page.tsx'

const job = { ranks_contested: 2 } as Parameters<typeof contested>[0]['job']

test('what nodes report against each other', () => {
  expect(contested({ job: { ...job, ranks_contested: 0 }, contests: { ranks: [], facts: [] } })).toBe(null)
  const claim = { node: 'n1', state: 'contested' as const, ranks: 2, first_rank: 0, last_rank: 1, calls: 12, bytes: 96 }
  const text = contested({
    job,
    contests: {
      ranks: [claim, { ...claim, node: 'n2', ranks: 1, calls: null }],
      facts: [{ fact: 'world_size', versions: [{ value: '8', node: 'n1', nodes: 3 }, { value: '9', node: 'n2', nodes: 1 }] }],
    },
  })
  expect(text).toContain('2 ranks, which are in nothing else here')
  expect(text).toContain('contested: n1 reports 2 ranks from 0 to 1 with 12 calls')
  expect(text).toContain('n2 reports rank 0 with no calls yet')
  expect(text).toContain('world size: 3 nodes, n1 for instance, say 8; n2 says 9')
})
