// Where switches and hosts of a fabric lie: layers and pods from the API, hosts folded into their leaf until
// opened. Pure: no drawing, no I/O. Positions are in the unit square, x to the right, y downwards.
import type { Topology } from '../api/client.ts'

export interface Placed {
  /** Position of each node; NaN for what is folded into its leaf. */
  x: Float32Array
  y: Float32Array
  /** What hangs at each leaf, in the order of the topology. */
  folded: Map<number, number[]>
  /** Room for a mark of the lowest layer of switches, as a share of the width. */
  pitch: number
  /** Length of the stub below a leaf that stands for its folded hosts. */
  stub: number
}

/** Share of the height that hosts take where a leaf is open. */
const HOST_BAND = 0.3
/** Rows that the hosts of an open leaf are staggered over, so that names and marks do not touch. */
export const HOST_ROWS = 4
/** Gap between pods, in leaves. */
const POD_GAP = 1
/** Height of the row for nodes that reach no host. */
const ASIDE = 0.02

/** Hosts by the leaf that they are folded into. */
export function foldedHosts(nodes: Topology['nodes']): Map<number, number[]> {
  const folded = new Map<number, number[]>()
  nodes.leaf.forEach((leaf, i) => {
    if (leaf === null) return
    const list = folded.get(leaf)
    if (list) list.push(i)
    else folded.set(leaf, [i])
  })
  return folded
}

/** Lays out a topology with some leaves open. Nodes of the topology come ordered by layer, pod and name. */
export function layout(topology: Topology, open: (leaf: number) => boolean): Placed {
  const { nodes } = topology
  const count = nodes.guid.length
  const x = new Float32Array(count).fill(Number.NaN)
  const y = new Float32Array(count).fill(Number.NaN)
  const folded = foldedHosts(nodes)
  const layers = byLayer(nodes, topology.layers)
  const top = topology.layers - 1
  const leaves = layers[1] ?? []
  const isOpen = (i: number) => open(i) && folded.has(i)
  const widthOf = (i: number) => (isOpen(i) ? Math.max(1, (folded.get(i)?.length ?? 0) / HOST_ROWS) : 1)
  const gap = gapBetween(leaves, nodes.pod)
  let total = 0
  leaves.forEach((i, k) => {
    total += widthOf(i) + (k > 0 && nodes.pod[i] !== nodes.pod[leaves[k - 1] as number] ? gap : 0)
  })
  total = Math.max(total, 1)

  const base = leaves.some(isOpen) ? 1 - HOST_BAND : 1 - HOST_BAND / 5
  const yOf = (layer: number) => (top <= 1 ? base / 2 : base - ((layer - 1) / (top - 1)) * (base - 2 * ASIDE))
  const spans = new Map<number | null, [number, number]>()
  let at = 0
  leaves.forEach((i, k) => {
    const pod = nodes.pod[i] ?? null
    if (k > 0 && pod !== nodes.pod[leaves[k - 1] as number]) at += gap
    const width = widthOf(i)
    x[i] = (at + width / 2) / total
    y[i] = yOf(1)
    if (isOpen(i)) placeHosts(folded.get(i) ?? [], at / total, width / total, base, x, y)
    const span = spans.get(pod)
    if (span) span[1] = (at + width) / total
    else spans.set(pod, [at / total, (at + width) / total])
    at += width
  })
  for (let layer = 2; layer <= top; layer += 1) {
    const groups = groupByPod(layers[layer] ?? [], nodes.pod)
    for (const [pod, list] of groups) spread(list, spans.get(pod) ?? [0, 1], yOf(layer), x, y)
  }
  // What reaches no host, and what is no switch and has no leaf (two hosts on one cable), has a row above all.
  const aside = nodes.guid.map((_, i) => i).filter((i) => Number.isNaN(x[i] as number) && nodes.leaf[i] === null)
  spread(aside, [0, 1], 0, x, y)
  return { x, y, folded, pitch: 1 / total, stub: Math.min(0.035, (1 - base) / 2) }
}

function byLayer(nodes: Topology['nodes'], layers: number): number[][] {
  const lists: number[][] = Array.from({ length: layers }, () => [])
  nodes.layer.forEach((layer, i) => {
    if (layer !== null && layer > 0) lists[layer]?.push(i)
  })
  return lists
}

/** Pods of one leaf each, as in a fabric of two layers, have no gaps. */
function gapBetween(leaves: number[], pod: (number | null)[]): number {
  return new Set(leaves.map((i) => pod[i])).size * 2 > leaves.length ? 0 : POD_GAP
}

function groupByPod(list: number[], pod: (number | null)[]): Map<number | null, number[]> {
  const groups = new Map<number | null, number[]>()
  for (const i of list) {
    const key = pod[i] ?? null
    const group = groups.get(key)
    if (group) group.push(i)
    else groups.set(key, [i])
  }
  return groups
}

function placeHosts(list: number[], from: number, width: number, base: number, x: Float32Array, y: Float32Array) {
  list.forEach((i, k) => {
    x[i] = from + ((k + 0.5) / list.length) * width
    y[i] = base + 0.11 + ((k % HOST_ROWS) / (HOST_ROWS - 1)) * (1 - base - 0.13)
  })
}

/** Spreads nodes evenly over a span. */
function spread(list: number[], [from, to]: [number, number], at: number, x: Float32Array, y: Float32Array) {
  list.forEach((i, k) => {
    x[i] = from + ((k + 0.5) / list.length) * (to - from)
    y[i] = at
  })
}
