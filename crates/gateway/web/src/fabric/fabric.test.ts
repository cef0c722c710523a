// Layout, picture and camera on a small fabric of three layers of switches.
import { describe, expect, it } from 'vitest'
import type { Load } from '../api/client.ts'
import { WHOLE, around, cameraOf, cameraText, mapping, pan, zoomAt } from './camera.ts'
import { fixture } from './fixture.ts'
import { drawLabels, rows } from './labels.ts'
import { matches } from '../text.ts'
import { layout } from './layout.ts'
import { findLink, findNode, isGuid, linkId, linkName, linkText, openLeaves, pickOf, stepsOf, toggled, valuesOf, worstFirst } from './model.ts'
import { emphasise, halves, isPlaced, lanes, linksOf, marks, pickAt } from './picture.ts'
import { DIM, HALF, LIT, MARK, PLAIN } from './scene.ts'

const topology = fixture()
const folded = layout(topology, () => false)
const opened = layout(topology, (leaf) => leaf === 8)
const links = topology.links.a.length
const zeroes = () => ({ nodes: new Uint8Array(topology.nodes.guid.length), links: new Uint8Array(links) })

describe('layout', () => {
  it('folds hosts into their leaf until it is opened', () => {
    expect(isPlaced(folded, 0)).toBe(false)
    expect(folded.folded.get(8)).toEqual([0, 1])
    expect(isPlaced(opened, 0) && isPlaced(opened, 1)).toBe(true)
    expect(isPlaced(opened, 2)).toBe(false)
    expect(opened.y[0]).toBeGreaterThan(opened.y[8] as number)
  })
  it('layers lie above each other by their distance from the hosts', () => {
    const [leaf, spine, core] = [folded.y[8], folded.y[12], folded.y[16]] as [number, number, number]
    expect(leaf).toBeGreaterThan(spine)
    expect(spine).toBeGreaterThan(core)
    expect(new Set([8, 9, 10, 11].map((i) => folded.y[i])).size).toBe(1)
  })
  it('draws pods together, with a gap between them', () => {
    const x = folded.x
    const inner = (x[9] as number) - (x[8] as number)
    expect((x[10] as number) - (x[9] as number)).toBeGreaterThan(inner * 1.5)
    for (const i of [12, 13]) expect(x[i]).toBeLessThan(x[10] as number)
    for (const i of [14, 15]) expect(x[i]).toBeGreaterThan(x[9] as number)
  })
  it('places every switch, one that reaches no host too, inside the square and apart from others', () => {
    const spots = new Set<string>()
    for (let i = 8; i < 18; i += 1) {
      expect(isPlaced(folded, i), topology.nodes.name[i]).toBe(true)
      for (const v of [folded.x[i], folded.y[i]] as number[]) expect(v >= 0 && v <= 1).toBe(true)
      spots.add(`${folded.x[i]},${folded.y[i]}`)
    }
    expect(spots.size).toBe(10)
  })
})

describe('picture', () => {
  const steps = { a: new Uint8Array(links).fill(1), b: new Uint8Array(links).fill(2) }
  it('gives each end of a link its own half, and folded links one stub a leaf', () => {
    const data = halves(topology, folded, lanes(topology.links), steps, zeroes())
    const between = topology.links.a.filter((a) => a >= 8).length
    expect(data.length / HALF).toBe(2 * between + 2 * 4)
  })
  it('draws what stands out last, and high steps over low ones', () => {
    const some = { a: new Uint8Array(steps.a), b: new Uint8Array(steps.b) }
    some.a[8] = 5
    const emphases = emphasise(topology, linksOf(topology), { link: 10 }, null)
    const data = halves(topology, folded, lanes(topology.links), some, emphases)
    const looks = Array.from({ length: data.length / HALF }, (_, i) => data[i * HALF + 5] as number)
    expect(Math.floor((looks.at(-1) as number) / 8)).toBe(LIT)
    expect(Math.floor((looks[0] as number) / 8)).toBe(DIM)
    const plain = looks.filter((l) => Math.floor(l / 8) === PLAIN).map((l) => l % 8)
    expect(plain).toEqual([...plain].sort((p, q) => p - q))
    expect(plain.at(-1)).toBe(5)
  })
  it('parallel cables have lanes of their own', () => {
    const lane = lanes(topology.links)
    expect([lane[8], lane[9], lane[10]]).toEqual([-0.5, 0.5, 0])
  })
  it('lights the ends of a link and their neighbours, and dims the rest', () => {
    const e = emphasise(topology, linksOf(topology), { link: 10 }, null)
    expect([e.nodes[8], e.nodes[13]]).toEqual([LIT, LIT])
    expect([e.nodes[12], e.nodes[9], e.nodes[16], e.nodes[0]]).toEqual([PLAIN, PLAIN, PLAIN, PLAIN])
    expect([e.nodes[10], e.nodes[14]]).toEqual([DIM, DIM])
    expect([e.links[10], e.links[8], e.links[13]]).toEqual([LIT, PLAIN, DIM])
  })
  it('lays a job over the map: its nodes and links are lit', () => {
    const e = emphasise(topology, linksOf(topology), null, { nodes: [0, 2], links: [0, 8, 11] })
    expect([e.nodes[0], e.nodes[8], e.nodes[12], e.nodes[4]]).toEqual([LIT, PLAIN, PLAIN, DIM])
    expect([e.links[8], e.links[9]]).toEqual([LIT, DIM])
  })
  it('has a mark for each placed node', () => {
    expect(marks(topology, folded, zeroes()).length / MARK).toBe(10)
    expect(marks(topology, opened, zeroes()).length / MARK).toBe(12)
  })
  it('finds what lies under the pointer', () => {
    const size = { width: 1000, height: 500 }
    const map = mapping(WHOLE, size)
    const at = (i: number): [number, number] => [(folded.x[i] as number) * map.scaleX + map.shiftX, (folded.y[i] as number) * map.scaleY + map.shiftY]
    const lane = lanes(topology.links)
    expect(pickAt(topology, folded, lane, map, 2, ...at(13), 9)).toEqual({ node: 13 })
    const [p, q] = [at(8), at(13)]
    expect(pickAt(topology, folded, lane, map, 2, p[0] * 0.4 + q[0] * 0.6, p[1] * 0.4 + q[1] * 0.6, 9)).toEqual({ link: 10 })
    expect(pickAt(topology, folded, lane, map, 2, 2, 499, 9)).toBe(null)
  })
})

describe('names', () => {
  it('do not touch, though one of them is always drawn', () => {
    const drawn: [text: string, x: number, y: number][] = []
    const context = { fillText: (text: string, x: number, y: number) => drawn.push([text, x, y]), strokeText: () => undefined } as unknown as CanvasRenderingContext2D
    const size = { width: 260, height: 600 }
    const list = rows(topology, folded, () => 60)
    for (const always of [[], [9], [9, 16]]) {
      drawn.length = 0
      drawLabels(context, topology, folded, list, always, mapping(WHOLE, size), size, 4, { ink: '#000', halo: '#fff' })
      for (const i of always) expect(drawn.map(([text]) => text)).toContain(topology.nodes.name[i])
      for (const [text, x] of drawn) {
        if (!always.some((i) => topology.nodes.name[i] === text)) expect(Math.min(x, size.width - x), `${text} is whole`).toBeGreaterThanOrEqual(30)
      }
      drawn.forEach(([text, x, y], k) => {
        const touching = drawn.filter(([, x2, y2], l) => l !== k && y === y2 && Math.abs(x - x2) < 60)
        expect(touching, `${text} with ${always.length} always drawn`).toEqual([])
      })
    }
  })
})

describe('camera', () => {
  const size = { width: 800, height: 600 }
  it('zooms about the pointer and pans by pixels', () => {
    const before = mapping(WHOLE, size)
    const [x, y] = [(200 - before.shiftX) / before.scaleX, (450 - before.shiftY) / before.scaleY]
    const map = mapping(zoomAt(WHOLE, size, 1.5, 200, 450), size)
    expect(x * map.scaleX + map.shiftX).toBeCloseTo(200)
    expect(y * map.scaleY + map.shiftY).toBeCloseTo(450)
    const moved = mapping(pan(WHOLE, size, 30, -20), size)
    expect(moved.shiftX - before.shiftX).toBeCloseTo(30)
    expect(moved.shiftY - before.shiftY).toBeCloseTo(-20)
  })
  it('goes through the URL, and what is no camera shows all', () => {
    const camera = cameraOf('0.2500,0.600,12.0')
    expect(cameraText(camera)).toBe('0.2500,0.600,12.0')
    expect(cameraText(WHOLE)).toBeUndefined()
    for (const text of [null, '', '1,2', 'a,b,c', '0.5,0.5,NaN']) expect(cameraOf(text)).toEqual(WHOLE)
    expect(cameraOf('0.5,0.5,1e9').zoom).toBeLessThanOrEqual(400)
  })
  it('brings what was found into sight', () => {
    const camera = around([[0.9, 0.8]], 10)
    const map = mapping(camera, size)
    expect(Math.abs(0.9 * map.scaleX + map.shiftX - 400)).toBeLessThan(200)
    const y = 0.8 * map.scaleY + map.shiftY
    expect(y > 0 && y < 600).toBe(true)
  })
})

describe('model', () => {
  const load = (version: string): Load => ({
    subnet: topology.subnet,
    topology: version,
    at_ms: 0,
    window_seconds: 10,
    thresholds: {
      utilisation: { alert: 'InfinibandLinkSaturated', busy_above: 0.8, full_above: 0.9, origin: 'default' },
      waiting: { alert: 'InfinibandLinkCongested', busy_above: 0.2, full_above: 0.3, origin: 'default' },
    },
    round: null,
    utilisation: { ab: topology.links.a.map((_, i) => i / 100), ba: topology.links.a.map(() => null) },
    waiting: { ab: topology.links.a.map(() => 0), ba: topology.links.a.map(() => 0.8) },
    errors: { a: topology.links.a.map(() => 20), b: topology.links.a.map(() => null) },
    age_seconds: { a: [], b: [] },
  })
  it('names links by their first end and finds them by either', () => {
    expect(linkId(topology, 10)).toBe('0x0000000000000008.5')
    expect(linkName(topology, 10)).toBe('leaf0[5] – spine1[1]')
    expect(findLink(topology, '0x0000000000000008.5')).toBe(10)
    expect(findLink(topology, '0x000000000000000d.1')).toBe(10)
    for (const wrong of [null, '', 'x', '0x0000000000000008', '0x0000000000000008.77']) expect(findLink(topology, wrong)).toBe(null)
    expect(findNode(topology, '0x0000000000000010')).toBe(16)
    expect(pickOf(topology, null, '0x0000000000000010')).toEqual({ node: 16 })
    expect(pickOf(topology, 'gone.1', 'gone')).toBe(null)
  })
  it('is searched by GUIDs as well as names', () => {
    expect(matches(linkText(topology, 10), 'LEAF0 spine1')).toBe(true)
    expect(matches(linkText(topology, 10), '0x0000000000000008.5')).toBe(true)
    expect(matches(linkText(topology, 10), '0x000000000000000d')).toBe(true)
    expect(matches(linkText(topology, 10), '0x0000000000000008.6')).toBe(false)
    for (const text of ['0x506b4b0300a1b2c3', '506B4B0300A1B2C3', '506b:4b03:00a1:b2c3', '0x506b4b0300a1b2c3.1', '0x506b4b0300a1b2c3[1]'])
      expect(isGuid(text), text).toBe(true)
    for (const text of ['', 'leaf0', 'cafe', 'leaf0[5]', '0x506b4b0300a1b2c3 leaf0']) expect(isGuid(text), text).toBe(false)
  })
  it('colours nothing by the load of another topology', () => {
    expect(stepsOf(topology, load('v0'), 'waiting').b[0]).toBe(0)
    expect(stepsOf(topology, load('v1'), 'waiting').b[0]).toBe(5)
    expect(stepsOf(topology, undefined, 'waiting').b[0]).toBe(0)
  })
  it('counts errors a second and marks what was not read', () => {
    const values = valuesOf(load('v1'), 'errors')
    expect([values.a[0], values.b[0]]).toEqual([2, null])
    expect(worstFirst(valuesOf(load('v1'), 'utilisation'))[0]).toBe(links - 1)
  })
  it('opens and folds leaves by the URL', () => {
    const guid = topology.nodes.guid[8] as string
    expect(toggled(topology, null, 8)).toBe(guid)
    expect(toggled(topology, guid, 8)).toBe('')
    expect(openLeaves(topology, guid)(8)).toBe(true)
    expect(openLeaves(topology, 'all')(11)).toBe(true)
    expect(toggled(topology, 'all', 8).split(',')).toHaveLength(3)
  })
})
