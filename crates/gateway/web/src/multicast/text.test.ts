import { expect, it } from 'vitest'
import type { Topology, Tree } from '../api/client.ts'
import { type Group, branches, lossText, memberCount, purpose, sorted } from './text.ts'

const known = (name: string | null, members: number | null) => ({ mgid: 'ff12::7', name, members }) as Group['known'][number]

it('a LID is named after its groups', () => {
  expect(purpose([])).toBe('not reported by the subnet administrator')
  expect(purpose([known('IPoIB broadcast', 2), known(null, 1)])).toBe('IPoIB broadcast, ff12::7')
  expect(purpose([known('a', 1), known('b', 1), known('c', 1), known('d', 1)])).toBe('a, b and 2 more')
})
it('members are not counted where those of one group are not known', () => {
  expect(memberCount([known('a', 2), known('b', 3)])).toBe(5)
  expect(memberCount([known('a', 2), known('b', null)])).toBe(null)
  expect(memberCount([])).toBe(null)
})
it('a branch goes from its upper end down', () => {
  const topology = { nodes: { name: ['n1', 'leaf', 'spine'] }, links: { a: [0, 1], port_a: [1, 9], b: [1, 2], port_b: [3, 4] } } as unknown as Topology
  const traffic = {
    packets_per_second: { ab: [5, 7], ba: [6, null] },
    bound_bytes_per_second: { ab: [50, 70], ba: [60, null] },
    loss: { ab: [null, { lost_packets: 3, packets: 40, seconds: 10 }], ba: [null, null] },
    mlids: [2, 1],
    switches: [],
  }
  const tree = { links: { link: [1, 0], depth: [0, 1], is_a_above: [false, false] }, traffic } as unknown as Tree
  const [first, second] = branches(topology, tree)
  expect([first?.name, second?.name]).toEqual(['spine[4] → leaf[9]', 'leaf[3] → n1[1]'])
  // The columns of figures are those of the tree's links, not of the topology's.
  expect([first?.down.packets, first?.up.packets, first?.mlids]).toEqual([6, 5, 2])
  expect([second?.down.packets, second?.up.packets, lossText(second?.up.loss ?? null)]).toEqual([null, 7, '≥ 3 of 40'])
  const untold = branches(topology, { ...tree, traffic: null })
  expect([untold[0]?.down.packets, untold[0]?.mlids, lossText(null)]).toEqual([null, null, '–'])
})
it('members are sorted by name, unknown ones last', () => {
  const member = (name: string | null, port_guid: string) => ({ name, port_guid }) as Tree['members'][number]
  expect(sorted([member(null, '0x1'), member('n10', '0x2'), member('n2', '0x3')]).map((m) => m.port_guid)).toEqual(['0x3', '0x2', '0x1'])
})
