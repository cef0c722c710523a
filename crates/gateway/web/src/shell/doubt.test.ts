import { expect, test } from 'vitest'
import { doubt } from './doubt.tsx'

test('a clock that is not believed is named with what to do, and one that is believed is not', () => {
  const warning = "the database's clock is in doubt: it has moved 8 d 0 h"
  expect(doubt({ warning, remedy: 'set it right' })).toBe(`${warning}; set it right.`)
  expect(doubt({ warning, remedy: null })).toContain('log of throughline serve')
  expect(doubt({ warning: null, remedy: null })).toBe(null)
  expect(doubt(undefined)).toBe(null)
})
