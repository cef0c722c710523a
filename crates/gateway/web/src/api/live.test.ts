import { expect, it } from 'vitest'
import { ApiError, address, asApiError, plain } from './client.ts'
import { mayHeal, pauseAfter } from './live.ts'

it('fetches more and more rarely while it fails', () => {
  expect(pauseAfter(0, 2000)).toBe(2000)
  expect(pauseAfter(0, undefined)).toBeUndefined()
  expect([1, 2, 3, 10].map((n) => pauseAfter(n, 2000))).toEqual([2000, 4000, 8000, 30_000])
  expect(pauseAfter(1, undefined)).toBe(2000)
})
it('does not repeat what stays wrong', () => {
  const of = (status: number) => mayHeal(new ApiError(status, '', '', ''))
  expect([400, 401, 404].map(of)).toEqual([false, false, false])
  expect([0, 429, 503, 504].map(of)).toEqual([true, true, true, true])
})
it('every failure has a cause and a remedy', () => {
  for (const cause of [new TypeError('x'), new DOMException('', 'TimeoutError'), 'x']) {
    const error = asApiError(cause)
    expect(error.message).not.toBe('')
    expect(error.remedy).not.toBe('')
  }
})
it('leaves empty parameters out of addresses', () => {
  expect(address('/jobs', { q: undefined, user: '', limit: 5, totals: false })).toBe('/api/v1/jobs?limit=5&totals=false')
})
it('attack 14: no name turns the direction of the text around it', () => {
  expect(plain('{"name":"a\u202eb\u2066c\u200bd"}')).toBe('{"name":"a\ufffdb\ufffdc\ufffdd"}')
  expect(plain('漢字 عربى äöü')).toBe('漢字 عربى äöü')
})
