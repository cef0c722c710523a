import { expect, test } from 'vitest'
import type { Load } from '../api/client.ts'
import { fixture } from './fixture.ts'
import { findings } from './headline.tsx'

const topology = fixture()
const column = (values: Record<number, number>) => topology.links.a.map((_, i) => values[i] ?? 0)
const load = (more: object): Load => {
  const none = { ab: column({}), ba: column({}) }
  const thresholds = { utilisation: { busy_above: 0.8, full_above: 0.9 }, waiting: { busy_above: 0.2, full_above: 0.3 } }
  return { thresholds, utilisation: none, waiting: none, errors: { a: column({}), b: column({}) }, ...more } as unknown as Load
}

test('a fabric in which nothing is wrong has no finding', () => {
  expect(findings(topology, load({ utilisation: { ab: column({ 3: 0.9 }), ba: topology.links.a.map(() => null) } }))).toEqual([])
})

test('each finding names how many links have it, and the worst', () => {
  const all = findings(topology, load({ utilisation: { ab: column({ 2: 0.95 }), ba: column({ 5: 0.97 }) }, waiting: { ab: column({ 1: 0.5 }), ba: column({}) }, errors: { a: column({ 7: 3 }), b: column({}) } }))
  expect(all).toEqual([
    { text: '2 links more than 90 % used (the fullest 97 %)', worst: 5 },
    { text: 'on 1 link data waits more than 30 % of the time (at most 50 %)', worst: 1 },
    { text: '1 link with errors (at most 3)', worst: 7 },
  ])
  const early = { utilisation: { busy_above: 0.3, full_above: 0.4 }, waiting: { busy_above: 0.9, full_above: 0.95 } }
  const own = findings(topology, load({ thresholds: early, utilisation: { ab: column({ 2: 0.5 }), ba: column({}) }, waiting: { ab: column({ 1: 0.5 }), ba: column({}) } }))
  expect(own).toEqual([{ text: '1 link more than 40 % used (the fullest 50 %)', worst: 2 }])
  const cut = { ...topology, states: ['Active', 'Down'], links: { ...topology.links, state: column({ 4: 1 }) } }
  expect(findings(cut, load({}))).toEqual([{ text: '1 cable down', worst: 4 }])
})
