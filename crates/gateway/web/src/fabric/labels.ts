// Names beside nodes, on a plain canvas over the drawing: as many of each row as fit without touching, the same ones
// while the picture is moved.
import type { Topology } from '../api/client.ts'
import type { Mapping, Size } from './camera.ts'
import type { Placed } from './layout.ts'
import { isPlaced } from './picture.ts'

const FONT_PX = 11
export const FONT = `${FONT_PX}px system-ui, sans-serif`
/** Room between two names. */
const ROOM_PX = 8

export interface Row {
  /** Nodes of one height, from left to right. */
  nodes: number[]
  /** Width of the widest name. */
  width: number
  /** Least distance of two neighbours, as a share of the square. */
  pitch: number
}

/** Rows of placed nodes by height, with widths of names by `measure`. */
export function rows(topology: Topology, placed: Placed, measure: (text: string) => number): Row[] {
  const byHeight = new Map<number, number[]>()
  for (let i = 0; i < placed.x.length; i += 1) {
    if (!isPlaced(placed, i)) continue
    const key = Math.round((placed.y[i] as number) * 1000)
    const list = byHeight.get(key)
    if (list) list.push(i)
    else byHeight.set(key, [i])
  }
  return [...byHeight.values()].map((nodes) => {
    nodes.sort((i, j) => (placed.x[i] as number) - (placed.x[j] as number))
    let pitch = 1
    for (let k = 1; k < nodes.length; k += 1) {
      pitch = Math.min(pitch, (placed.x[nodes[k] as number] as number) - (placed.x[nodes[k - 1] as number] as number))
    }
    // The longest text is nearly always the widest: one measurement a row, not thousands.
    const longest = nodes.reduce((text, i) => (nameOf(topology, i).length > text.length ? nameOf(topology, i) : text), '')
    return { nodes, width: measure(longest), pitch }
  })
}

/** A node's name as the map shows it. */
export const nameOf = (topology: Topology, i: number) => topology.nodes.name[i] ?? ''

/** Where a name stands whose node is in sight: beside it, or as near as it is whole. */
function within(x: number, width: number, whole: number): number {
  const side = width / 2 + 2
  return x < 0 || x > whole || side * 2 > whole ? x : Math.min(Math.max(x, side), whole - side)
}

/** Draws names for a frame. `always` are drawn whatever is beside them. */
export function drawLabels(
  context: CanvasRenderingContext2D,
  topology: Topology,
  placed: Placed,
  list: readonly Row[],
  always: readonly number[],
  map: Mapping,
  size: Size,
  radius: number,
  colours: { ink: string; halo: string },
): void {
  context.font = FONT
  context.textAlign = 'center'
  context.lineWidth = 3
  context.lineJoin = 'round'
  context.strokeStyle = colours.halo
  context.fillStyle = colours.ink
  const named = always.filter((i) => isPlaced(placed, i))
  // A name that is always drawn takes the room of its neighbours' names.
  const isFree = (i: number, room: number) =>
    named.every((j) => placed.y[i] !== placed.y[j] || Math.abs((placed.x[i] as number) - (placed.x[j] as number)) * map.scaleX >= room)
  const across = (i: number) => (placed.x[i] as number) * map.scaleX + map.shiftX
  const write = (i: number, x = across(i)) => {
    const y = (placed.y[i] as number) * map.scaleY + map.shiftY
    if (x < -80 || x > size.width + 80 || y < -20 || y > size.height + 20) return
    const layer = topology.nodes.layer[i]
    const folded = layer === 1 && placed.folded.has(i) ? placed.stub * map.scaleY : 0
    // Above the top of the canvas nothing can be read: below the mark there.
    const above = layer !== 0 && layer !== 1 && y > 24
    const at = above ? y - radius - 5 : y + radius + folded + FONT_PX + 1
    context.strokeText(nameOf(topology, i), x, at)
    context.fillText(nameOf(topology, i), x, at)
  }
  for (const row of list) {
    const room = row.width + ROOM_PX
    const stride = Math.max(1, Math.ceil(room / Math.max(row.pitch * map.scaleX, 1e-6)))
    // Names of rows with hundreds of nodes mean nothing while only every tenth is named.
    if (stride > Math.max(10, row.nodes.length / 4)) continue
    let end = Number.NEGATIVE_INFINITY
    for (let k = 0; k < row.nodes.length; k += stride) {
      const i = row.nodes[k] as number
      if (!isFree(i, room)) continue
      const x = within(across(i), row.width, size.width)
      if (x - end < room) continue
      write(i, x)
      end = x
    }
  }
  for (const i of named) write(i)
}
