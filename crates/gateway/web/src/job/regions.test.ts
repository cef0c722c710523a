import { expect, test } from 'vitest'
import { most } from './regions.tsx'

const path = (text: string, elapsed_seconds: number) => ({
  path: text.split('/'),
  elapsed_seconds,
  ranks: 1,
  visits: 1,
  own_seconds: 0,
  mpi_calls: 0,
  mpi_seconds: 0,
  own_mpi_calls: 0,
  own_mpi_seconds: 0,
})

test('those with the most time, never one without the path around it', () => {
  const tree = [path('main', 9), path('main/a', 5), path('main/a/b', 5), path('main/c', 2), path('other', 3)]
  expect(most(tree, 3).map((one) => one.path.join('/'))).toEqual(['main', 'main/a', 'main/a/b'])
  expect(most(tree, 2).map((one) => one.path.join('/'))).toEqual(['main', 'main/a'])
  expect(most(tree, 9)).toHaveLength(5)
  expect(most([], 9)).toEqual([])
})
