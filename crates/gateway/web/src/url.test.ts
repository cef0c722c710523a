import { expect, it } from 'vitest'
import { fabricPath, groupPath, jobPath, nodePath, oneOf, place, rangeBefore, timeOf, withValues } from './url.ts'

it('paths lead to pages and back', () => {
  expect(place('/')).toEqual({ page: 'fabric' })
  expect(place('/fabric')).toEqual({ page: 'fabric' })
  expect(place(jobPath('slurm:4711.0@1000'))).toEqual({ page: 'jobs', thing: 'slurm:4711.0@1000' })
  expect(place(jobPath('a/b %'))).toEqual({ page: 'jobs', thing: 'a/b %' })
  expect(place(nodePath('node 1'))).toEqual({ page: 'nodes', thing: 'node 1' })
  expect(place(groupPath('0xc000', {}))).toEqual({ page: 'multicast', thing: '0xc000' })
  expect(groupPath('0xc000', { at: '2026-01-01', subnet: undefined })).toBe('/multicast/0xc000?at=2026-01-01')
  expect(place('/jobs/1/2')).toBeUndefined()
  expect(place('/jobs/%E0%A4%A')).toBeUndefined()
})
it('one view has one URL', () => {
  expect(withValues('b=1', { a: '2' })).toBe(withValues('a=2', { b: '1' }))
  expect(withValues('a=1&b=2', { a: undefined, b: '' })).toBe('')
  expect(withValues('', { open: '0x01,0x02', at: '2026-01-01T00:00:00.000Z' })).toBe('at=2026-01-01T00:00:00.000Z&open=0x01,0x02')
  expect(fabricPath({ job: undefined })).toBe('/fabric')
  expect(new URLSearchParams(fabricPath({ job: 'a&b=c' }).split('?')[1]).get('job')).toBe('a&b=c')
})
it('unknown words fall back to the first', () => {
  expect(oneOf(['a', 'b'], 'b')).toBe('b')
  expect(oneOf(['a', 'b'], 'c')).toBe('a')
  expect(oneOf(['a', 'b'], null)).toBe('a')
})
it('a time is one of those that the API takes', () => {
  for (const text of ['1767225600000', '2026-01-01T00:00:00Z']) expect(timeOf(text)).toBe(1767225600000)
  expect(timeOf('noon')).toBeNaN()
  expect(rangeBefore('1767225600000', 1000)).toEqual({ from: '2025-12-31T23:59:59.000Z', to: '1767225600000' })
  expect(rangeBefore('noon', 1000)).toEqual({ to: 'noon' })
})
