import { expect, test } from 'vitest'
import type { Pvars } from '../api/client.ts'
import { described, first } from './pvars.tsx'

const variable = (name: string, more: object = {}) => ({ name, source: 'mpi_t', class: 'level', ranks: 4, elements: 1, is_rate: false, fold: 'sum', ...more }) as Pvars['variables'][number]

test('a queue length is shown first', () => {
  expect(first([variable('a_bytes'), variable('unexpected_recvq_length')])?.name).toBe('unexpected_recvq_length')
  expect(first([variable('b')])?.name).toBe('b')
  expect(first([])).toBeUndefined()
})

test('a variable is described', () => {
  expect(described(variable('q', { elements: 8 }))).toBe('level, of 4 ranks and 8 elements; together: summed')
  expect(described(variable('w', { class: 'highwatermark', fold: 'largest' }))).toBe('highwatermark, of 4 ranks; together: the largest')
})
