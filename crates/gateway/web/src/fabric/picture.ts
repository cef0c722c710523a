// From topology, layout, steps and emphasis to the numbers that the scene draws, and back from a pixel to a link or
// node. Pure.
import type { Topology } from '../api/client.ts'
import type { Mapping } from './camera.ts'
import type { Placed } from './layout.ts'
import { DIM, type Emphasis, HALF, LIT, MARK, PLAIN, look } from './scene.ts'

/** What stands out, by place in the topology. */
export interface Emphases {
  nodes: Uint8Array
  links: Uint8Array
}
/** Steps of colour of each link: the half at end a, and at end b. */
export interface Steps {
  a: Uint8Array
  b: Uint8Array
}

export const isPlaced = (placed: Placed, i: number) => !Number.isNaN(placed.x[i] as number)

/** Lane of each link among those of the same two nodes: 0 alone, -0.5 and 0.5 of two. Links come ordered by ends. */
export function lanes(links: Topology['links']): Float32Array {
  const count = links.a.length
  const result = new Float32Array(count)
  for (let from = 0; from < count; ) {
    let to = from + 1
    while (to < count && links.a[to] === links.a[from] && links.b[to] === links.b[from]) to += 1
    for (let k = from; k < to; k += 1) result[k] = k - from - (to - from - 1) / 2
    from = to
  }
  return result
}

/** Takes one half of a link: its end, its middle, its lane and its looks. */
type Taker = (x: number, y: number, middleX: number, middleY: number, lane: number, step: number, emphasis: Emphasis) => void

const rank = (emphasis: Emphasis) => (emphasis === DIM ? 0 : emphasis === PLAIN ? 1 : 2)
const stronger = (a: Emphasis, b: Emphasis): Emphasis => (rank(a) >= rank(b) ? a : b)
/** Ranks of emphasis times steps of colour, and the end of the last. */
const KEYS = 25

/** Halves of all links between placed nodes, and stubs for what is folded: dim below plain below lit, and within them low
 * steps below high ones. A counting sort that makes no object of a half: large fabrics have tens of thousands, and each
 * answer brings them anew. */
export function halves(topology: Topology, placed: Placed, lane: Float32Array, steps: Steps, emphases: Emphases): Float32Array {
  const starts = new Int32Array(KEYS)
  let count = 0
  eachHalf(topology, placed, lane, steps, emphases, (_x, _y, _middleX, _middleY, _lane, step, emphasis) => {
    const next = rank(emphasis) * 8 + step + 1
    starts[next] = (starts[next] as number) + 1
    count += 1
  })
  for (let k = 1; k < KEYS; k += 1) starts[k] = (starts[k] as number) + (starts[k - 1] as number)
  const data = new Float32Array(count * HALF)
  eachHalf(topology, placed, lane, steps, emphases, (x, y, middleX, middleY, shift, step, emphasis) => {
    const key = rank(emphasis) * 8 + step
    const at = (starts[key] as number) * HALF
    starts[key] = (starts[key] as number) + 1
    data[at] = x
    data[at + 1] = y
    data[at + 2] = middleX
    data[at + 3] = middleY
    data[at + 4] = shift
    data[at + 5] = look(step, emphasis)
  })
  return data
}

function eachHalf(topology: Topology, placed: Placed, lane: Float32Array, steps: Steps, emphases: Emphases, take: Taker): void {
  const { a: ends, b: others } = topology.links
  const { x, y } = placed
  const stubs = new Map<number, { down: number; up: number; emphasis: Emphasis }>()
  for (let i = 0; i < ends.length; i += 1) {
    const a = ends[i] as number
    const b = others[i] as number
    const emphasis = emphases.links[i] as Emphasis
    if (isPlaced(placed, a) && isPlaced(placed, b)) {
      const middleX = ((x[a] as number) + (x[b] as number)) / 2
      const middleY = ((y[a] as number) + (y[b] as number)) / 2
      const shift = lane[i] as number
      take(x[a] as number, y[a] as number, middleX, middleY, shift, steps.a[i] as number, emphasis)
      // Seen from the other end the sides are swapped.
      take(x[b] as number, y[b] as number, middleX, middleY, -shift, steps.b[i] as number, emphasis)
      continue
    }
    const [leaf, out, back] = isPlaced(placed, b) ? [b, steps.b[i], steps.a[i]] : [a, steps.a[i], steps.b[i]]
    if (!isPlaced(placed, leaf)) continue
    const stub = stubs.get(leaf) ?? { down: 0, up: 0, emphasis: DIM }
    stub.down = Math.max(stub.down, out as number)
    stub.up = Math.max(stub.up, back as number)
    stub.emphasis = stronger(stub.emphasis, emphasis)
    stubs.set(leaf, stub)
  }
  for (const [leaf, stub] of stubs) {
    const [left, top] = [x[leaf] as number, y[leaf] as number]
    take(left, top, left, top + placed.stub / 2, 0, stub.down, stub.emphasis)
    take(left, top + placed.stub, left, top + placed.stub / 2, 0, stub.up, stub.emphasis)
  }
}

/** Marks of all placed nodes: hosts round, switches square; lit ones last. */
export function marks(topology: Topology, placed: Placed, emphases: Emphases): Float32Array {
  const switchKind = topology.kinds.indexOf('switch')
  const order: [Emphasis, number][] = []
  topology.nodes.kind.forEach((_, i) => {
    if (isPlaced(placed, i)) order.push([emphases.nodes[i] as Emphasis, i])
  })
  order.sort(([p, i], [q, j]) => rank(p) - rank(q) || i - j)
  const data = new Float32Array(order.length * MARK)
  order.forEach(([emphasis, i], k) => {
    const shape = topology.nodes.kind[i] === switchKind ? 1 : 0
    data.set([placed.x[i] as number, placed.y[i] as number, shape, look(0, emphasis)], k * MARK)
  })
  return data
}

/** What is chosen: a link or a node by its place in the topology. */
export type Pick = { link: number } | { node: number }

/** Links of each node. */
export function linksOf(topology: Topology): number[][] {
  const list: number[][] = topology.nodes.guid.map(() => [])
  topology.links.a.forEach((a, i) => {
    list[a]?.push(i)
    list[topology.links.b[i] as number]?.push(i)
  })
  return list
}

/** What stands out: what is chosen with its ends and their neighbours, on top of a job's or a multicast group's. */
export function emphasise(
  topology: Topology,
  near: number[][],
  pick: Pick | null,
  overlaid: { nodes: readonly number[]; links: readonly number[] } | null,
): Emphases {
  const nodes = new Uint8Array(topology.nodes.guid.length)
  const links = new Uint8Array(topology.links.a.length)
  if (overlaid !== null) {
    nodes.fill(DIM)
    links.fill(DIM)
    for (const i of overlaid.nodes) {
      nodes[i] = LIT
      const leaf = topology.nodes.leaf[i]
      if (leaf !== null && leaf !== undefined && nodes[leaf] === DIM) nodes[leaf] = PLAIN
    }
    for (const i of overlaid.links) {
      links[i] = LIT
      for (const end of [topology.links.a[i] as number, topology.links.b[i] as number]) {
        if (nodes[end] === DIM) nodes[end] = PLAIN
      }
    }
  }
  if (pick === null) return { nodes, links }
  if (overlaid === null) {
    nodes.fill(DIM)
    links.fill(DIM)
  }
  const ends = 'link' in pick ? [topology.links.a[pick.link] as number, topology.links.b[pick.link] as number] : [pick.node]
  for (const end of ends) {
    for (const i of near[end] ?? []) {
      if (links[i] === DIM) links[i] = PLAIN
      for (const other of [topology.links.a[i] as number, topology.links.b[i] as number]) {
        if (nodes[other] === DIM) nodes[other] = PLAIN
      }
    }
    nodes[end] = LIT
  }
  if ('link' in pick) links[pick.link] = LIT
  return { nodes, links }
}

/** Nearest node within `reach` pixels of a point, else the nearest link; null where nothing is near. */
export function pickAt(topology: Topology, placed: Placed, lane: Float32Array, map: Mapping, spacing: number, px: number, py: number, reach: number): Pick | null {
  let best = reach * reach
  let found: Pick | null = null
  for (let i = 0; i < placed.x.length; i += 1) {
    const dx = (placed.x[i] as number) * map.scaleX + map.shiftX - px
    if (!(Math.abs(dx) <= reach)) continue
    const dy = (placed.y[i] as number) * map.scaleY + map.shiftY - py
    if (dx * dx + dy * dy <= best) {
      best = dx * dx + dy * dy
      found = { node: i }
    }
  }
  if (found !== null) return found
  const { a, b } = topology.links
  let nearest = reach * 0.75
  for (let i = 0; i < a.length; i += 1) {
    const away = distance(placed, map, a[i] as number, b[i] as number, (lane[i] as number) * spacing, px, py)
    if (away < nearest) {
      nearest = away
      found = { link: i }
    }
  }
  return found
}

/** Pixels between a point and a drawn link; NaN (never near) where an end is folded. */
function distance(placed: Placed, map: Mapping, a: number, b: number, shift: number, px: number, py: number): number {
  let x1 = (placed.x[a] as number) * map.scaleX + map.shiftX
  let y1 = (placed.y[a] as number) * map.scaleY + map.shiftY
  const dx = (placed.x[b] as number) * map.scaleX + map.shiftX - x1
  const dy = (placed.y[b] as number) * map.scaleY + map.shiftY - y1
  const length = Math.hypot(dx, dy)
  if (!(length > 0)) return Number.NaN
  x1 -= (dy / length) * shift
  y1 += (dx / length) * shift
  const t = Math.min(Math.max(((px - x1) * dx + (py - y1) * dy) / (length * length), 0), 1)
  return Math.hypot(px - x1 - t * dx, py - y1 - t * dy)
}
