import { expect, test } from 'vitest'
import { fitted } from './chart.tsx'

test('a name that does not fit loses its middle and keeps both ends', () => {
  const fits = (text: string) => text.length <= 10
  expect(fitted('leaf001[2]', fits)).toBe('leaf001[2]')
  expect(fitted('leaf001[22]', fits)).toBe('leaf0…[22]')
  expect(fitted('rack12-leaf001[22]', fits)).toBe('rack1…[22]')
  expect(fitted('wide', () => false)).toBe('w…e')
})
