// Where GPUs, NVLink switches, CPUs and adapters of a host lie, and the paths between them. Pure: numbers in, numbers
// out. Rows from the top: NVLink switches, GPUs, CPUs, adapters.
import type { Node } from '../api/client.ts'

export interface Spot {
  id: string
  /** `end`: what NVLinks lead to that is no other spot, above their GPU. */
  kind: 'nvswitch' | 'gpu' | 'cpu' | 'adapter' | 'leaf' | 'end'
  x: number
  y: number
  width: number
  title: string
  note: string
}
/** A line from one spot to another: two halves, coloured apart. */
export interface Line {
  /** Place in `logical`. */
  logical: number
  /** Place in `links`, null for all of them in one. */
  link: number | null
  first: string
  second: string
}
export interface Drawing {
  width: number
  height: number
  spots: Spot[]
  lines: Line[]
}

const WIDTH = 1000
const SWITCH_Y = 44
const ROW_PX = 110
/** Height of arcs between neighbours, and for each GPU further. */
const ARC_PX = 46
const ARC_FURTHER_PX = 26
/** Widest box, and the room between two. */
const BOX_PX = 160
const BETWEEN_PX = 8
/** How far above a GPU its links to something else end. */
const END_PX = 70
/** Distance of the physical links of one logical link. */
const APART_PX = 9

const spread = (count: number, i: number) => ((i + 0.5) / count) * WIDTH

type Point = readonly [number, number]
const middle = (a: Point, b: Point): Point => [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2]
const text = (p: Point) => `${p[0].toFixed(1)} ${p[1].toFixed(1)}`

/** Both halves of a curve with one control point, the first from `a`. */
export function halvesOfCurve(a: Point, control: Point, b: Point): [string, string] {
  const [near, far] = [middle(a, control), middle(control, b)]
  const centre = middle(near, far)
  return [`M${text(a)}Q${text(near)} ${text(centre)}`, `M${text(b)}Q${text(far)} ${text(centre)}`]
}

/** The lowest row of GPUs: below the highest arc or the row of switches. */
function gpuRow(node: Node): number {
  let reach = node.nv_switches.length > 0 ? ROW_PX : 40
  for (const l of node.logical) {
    if (l.remote_kind === 'gpu' && l.remote !== null) reach = Math.max(reach, arcHeight(l.gpu, l.remote) / 2 + 30)
    if (l.remote === null) reach = Math.max(reach, END_PX + 20)
  }
  return SWITCH_Y + reach
}

const arcHeight = (i: number, j: number) => 2 * (ARC_PX + ARC_FURTHER_PX * (Math.abs(i - j) - 1))

/** What a GPU is, or that it is lost. */
function gpuNote(gpu: Node['gpus'][number]): string {
  if (gpu.is_lost) return 'lost: does not answer'
  return gpu.partitions.length > 0 ? `${gpu.name}, ${gpu.partitions.length} partitions` : gpu.name
}

/** Everything of a host. `unfolded`: whether a logical link shows its physical ones. */
export function draw(node: Node, unfolded: (logical: number) => boolean): Drawing {
  const gpuY = gpuRow(node)
  const cpuY = gpuY + ROW_PX
  const adapterY = cpuY + (node.numa_nodes.length > 0 ? ROW_PX : 0)
  const leafY = adapterY + ROW_PX
  const spots: Spot[] = []
  const add = (kind: Spot['kind'], i: number, count: number, y: number, title: string, note: string) => {
    spots.push({ id: `${kind}${i}`, kind, x: spread(count, i), y, width: Math.min(BOX_PX, WIDTH / count - BETWEEN_PX), title, note })
  }
  node.nv_switches.forEach((s, i) => add('nvswitch', i, node.nv_switches.length, SWITCH_Y, `NVSwitch ${i}`, s.pci))
  node.gpus.forEach((g, i) => add('gpu', i, node.gpus.length, gpuY, `GPU ${g.index}`, gpuNote(g)))
  node.numa_nodes.forEach((n, i) => add('cpu', i, node.numa_nodes.length, cpuY, `CPU, NUMA ${n}`, ''))
  node.adapters.forEach((a, i) => add('adapter', i, node.adapters.length, adapterY, `${a.device} port ${a.port}`, a.state ?? ''))
  node.adapters.forEach((a, i) => {
    if (a.leaf !== null) add('leaf', i, node.adapters.length, leafY, a.leaf, '')
  })
  node.logical.forEach((l, at) => {
    if (l.remote !== null) return
    const x = spread(node.gpus.length, l.gpu)
    spots.push({ id: `end${at}`, kind: 'end', x, y: gpuY - END_PX - 10, width: 64, title: remoteName(node, l), note: '' })
  })
  const lines = node.logical.flatMap((l, at) => linesOf(node, l, at, { gpuY }, unfolded(at)))
  return { width: WIDTH, height: (node.adapters.length > 0 ? leafY : cpuY) + 40, spots, lines }
}

function linesOf(node: Node, l: Node['logical'][number], at: number, { gpuY }: { gpuY: number }, isUnfolded: boolean): Line[] {
  const links: (number | null)[] = isUnfolded ? [...l.links] : [null]
  return links.map((link, k) => {
    const aside = (k - (links.length - 1) / 2) * APART_PX
    const from: Point = [spread(node.gpus.length, l.gpu) + aside / 3, gpuY - 20]
    let control: Point
    let to: Point
    if (l.remote_kind === 'gpu' && l.remote !== null) {
      to = [spread(node.gpus.length, l.remote) - aside / 3, gpuY - 20]
      control = [(from[0] + to[0]) / 2, gpuY - 20 - arcHeight(l.gpu, l.remote) - aside * 2]
    } else if (l.remote_kind === 'switch' && l.remote !== null) {
      to = [spread(node.nv_switches.length, l.remote) + aside / 3, SWITCH_Y + 20]
      control = [(from[0] + to[0]) / 2 + aside, (from[1] + to[1]) / 2]
    } else {
      to = [from[0] + aside, gpuY - END_PX]
      control = middle(from, to)
    }
    const [first, second] = halvesOfCurve(from, control, to)
    return { logical: at, link, first, second }
  })
}

/** What a logical link leads to. */
export function remoteName(node: Node, l: Node['logical'][number]): string {
  if (l.remote_kind === 'gpu' && l.remote !== null) return `GPU ${node.gpus[l.remote]?.index ?? l.remote}`
  if (l.remote_kind === 'switch' && l.remote !== null) return `NVSwitch ${l.remote}`
  return l.remote_kind === 'elsewhere' ? 'a GPU of another host' : l.remote_kind === 'cpu' ? 'CPU' : l.remote_kind
}

/** Share of a speed. */
export const share = (value: number | null, speed: number | null): number | null =>
  value === null || speed === null || speed <= 0 ? null : value / speed
