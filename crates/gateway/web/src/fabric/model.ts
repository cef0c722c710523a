// What the fabric page makes of the API's columns: names of links, values by end, places by GUID. Pure.
import type { Load, Overlay, Topology, Tree } from '../api/client.ts'
import { type Quantity, type Thresholds, step } from '../colour.ts'
import type { Pick, Steps } from './picture.ts'

/** GUID.PORT of end a: how the API and the URL name a link. */
export const linkId = (topology: Topology, i: number) =>
  `${topology.nodes.guid[topology.links.a[i] as number]}.${topology.links.port_a[i]}`

/** The host that an adapter is in, by its description: the kernel writes the host's name and then the device's. */
export const hostOf = (name: string) => name.split(' ')[0] ?? name

/** Both ends as people write them: leaf1[3] – spine2[7]. */
export function linkName(topology: Topology, i: number): string {
  const { a, b, port_a, port_b } = topology.links
  const { name } = topology.nodes
  return `${name[a[i] as number]}[${port_a[i]}] – ${name[b[i] as number]}[${port_b[i]}]`
}

/** What the filter of links looks in: names of both ends, and their nodes' GUIDs with the port. */
export function linkText(topology: Topology, i: number): string {
  const { a, b, port_a, port_b } = topology.links
  const { guid } = topology.nodes
  return `${linkName(topology, i)} ${guid[a[i] as number]}.${port_a[i]} ${guid[b[i] as number]}.${port_b[i]}`
}

/** Whether a text is a whole GUID, perhaps with a port: the server knows those of adapters' ports. */
export const isGuid = (text: string) => /^(0x[0-9a-f]{1,16}|[0-9a-f]{16}|[0-9a-f]{4}(:[0-9a-f]{4}){3})( port |[ ./:[])?\d{0,3}]?$/i.test(text)

/** Place of a node by its GUID, of a link by GUID.PORT of either end. */
export function findNode(topology: Topology, guid: string | null): number | null {
  const i = guid === null ? -1 : topology.nodes.guid.indexOf(guid)
  return i < 0 ? null : i
}
export function findLink(topology: Topology, id: string | null): number | null {
  if (id === null) return null
  const [guid, port] = id.split('.')
  const node = findNode(topology, guid ?? null)
  if (node === null) return null
  const { a, b, port_a, port_b } = topology.links
  const i = a.findIndex((_, k) => (a[k] === node && port_a[k] === Number(port)) || (b[k] === node && port_b[k] === Number(port)))
  return i < 0 ? null : i
}

/** What the URL chooses, as far as it is in this topology. */
export function pickOf(topology: Topology, link: string | null, node: string | null): Pick | null {
  const i = findLink(topology, link)
  if (i !== null) return { link: i }
  const n = findNode(topology, node)
  return n === null ? null : { node: n }
}

export interface Values {
  a: (number | null)[]
  b: (number | null)[]
}

/** Values by end: what end a sends, what end b sends; errors by the end that counted them, a second. */
export function valuesOf(load: Load, quantity: Quantity): Values {
  if (quantity !== 'errors') return { a: load[quantity].ab, b: load[quantity].ba }
  const perSecond = (list: readonly (number | null)[]) => list.map((n) => (n === null ? null : n / load.window_seconds))
  return { a: perSecond(load.errors.a), b: perSecond(load.errors.b) }
}

/** Steps of colour of what one job put on links. */
export function stepsOfShares(values: Values, thresholds: Thresholds | undefined): Steps {
  const steps = (shares: Values['a']) => Uint8Array.from(shares, (share) => step('utilisation', share, thresholds))
  return { a: steps(values.a), b: steps(values.b) }
}

/** Steps of colour; all unknown while the load is of another topology. */
export function stepsOf(topology: Topology, load: Load | undefined, quantity: Quantity): Steps {
  const count = topology.links.a.length
  const steps = { a: new Uint8Array(count), b: new Uint8Array(count) }
  if (load === undefined || load.topology !== topology.version) return steps
  const values = valuesOf(load, quantity)
  for (let i = 0; i < count; i += 1) {
    steps.a[i] = step(quantity, values.a[i], load.thresholds)
    steps.b[i] = step(quantity, values.b[i], load.thresholds)
  }
  return steps
}

/** Nodes and links of what is laid over the map by place, null while it is of another topology. */
export function overlaidPlaces(topology: Topology, overlay: Overlay | Tree | undefined) {
  if (overlay === undefined || overlay.topology !== topology.version) return null
  return { nodes: overlay.nodes, links: overlay.links.link }
}

/** A multicast LID as people write it. */
/** How a switch or a subnet routes, by what switches report, in words. */
export const routingText = (routing: string | null | undefined) => routing ?? 'not reported'

export const mlidText = (mlid: number) => `0x${mlid.toString(16)}`

/** Leaves that are open: `all`, or GUIDs with commas. */
export function openLeaves(topology: Topology, text: string | null): (leaf: number) => boolean {
  if (text === 'all') return () => true
  const guids = new Set((text ?? '').split(',').filter((guid) => guid !== ''))
  const open = new Set<number>()
  topology.nodes.guid.forEach((guid, i) => {
    if (guids.has(guid)) open.add(i)
  })
  return (leaf) => open.has(leaf)
}

/** The value of `open` with a leaf opened or folded. */
export function toggled(topology: Topology, text: string | null, leaf: number): string {
  const guid = topology.nodes.guid[leaf] as string
  const leaves = topology.nodes.guid.filter((_, i) => topology.nodes.layer[i] === 1)
  const now = text === 'all' ? leaves : (text ?? '').split(',').filter((g) => g !== '')
  return now.includes(guid) ? now.filter((g) => g !== guid).join(',') : [...now, guid].join(',')
}

/** Links by their worse direction, the worst first; null is behind 0. */
export function worstFirst(values: Values): number[] {
  const worst = values.a.map((a, i) => Math.max(a ?? -1, values.b[i] ?? -1))
  return worst.map((_, i) => i).sort((i, j) => (worst[j] as number) - (worst[i] as number))
}
