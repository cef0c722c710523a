// Multicast groups in words.
import type { Groups, Topology, Tree } from '../api/client.ts'
import { byName, short } from '../text.ts'

export type Group = Groups['groups'][number]
export type Member = Tree['members'][number]
export type Loss = NonNullable<NonNullable<Tree['traffic']>['loss']['ab'][number]>

/** What the groups of a LID are for: the names of the first ones, else that nothing is known. */
export function purpose(known: Group['known']): string {
  const names = known.map((group) => group.name ?? group.mgid)
  if (names.length === 0) return 'not reported by the subnet administrator'
  return names.length <= 2 ? names.join(', ') : `${names.slice(0, 2).join(', ')} and ${names.length - 2} more`
}

/** Members of all groups of a LID; null where those of one are not reported. */
export function memberCount(known: Group['known']): number | null {
  if (known.length === 0) return null
  return known.reduce<number | null>((sum, group) => (sum === null || group.members === null ? null : sum + group.members), 0)
}

/** What is wrong with groups by what the list knows: members, and no tree to reach them. */
export const withoutTree = (groups: readonly Group[]) => groups.filter((group) => (memberCount(group.known) ?? 0) > 1 && group.links === 0)

/** What is wrong with a group: its tree, members that it does not reach, packets that are missing, the most first. */
export function wrongOf(tree: Tree, topology: Topology): string[] {
  const lines: string[] = []
  const rows = tree.topology === topology.version ? branches(topology, tree) : []
  const lost = rows.flatMap((row) => [row.down, row.up].flatMap((way) => (way.loss !== null && way.loss.lost_packets > 0 ? [{ name: row.name, loss: way.loss }] : [])))
  lost.sort((a, b) => b.loss.lost_packets - a.loss.lost_packets)
  const [worst] = lost
  if (worst !== undefined) lines.push(`Packets are lost on ${lost.length === 1 ? 'a link' : `${lost.length} directions of links`}: most on ${worst.name}, ${lossText(worst.loss)} in ${short(worst.loss.seconds)} s`)
  for (const s of tree.traffic?.switches ?? []) if (s.loss !== null && s.loss.lost_packets > 0) lines.push(`Packets are lost in ${s.name}: ${lossText(s.loss)}`)
  if (tree.parts > 1) lines.push(`Its tree is torn into ${tree.parts} parts`)
  const missed = tree.members.filter((member) => member.is_reached === false).length
  if (missed > 0) lines.push(`The tree does not reach ${missed === 1 ? '1 member' : `${missed} members`}`)
  return lines
}

/** Packets a second, which are few or many. */
export const packets = (value: number | null | undefined) => short(value, '/s')

/** A link of the tree with its upper end first, and the values of its directions. */
export interface Branch {
  link: number
  depth: number
  name: string
  mlids: number | null
  down: Way
  up: Way
}
interface Way {
  packets: number | null
  bytes: number | null
  loss: Loss | null
}

/** Rows of the tree, from the root down. */
export function branches(topology: Topology, tree: Tree): Branch[] {
  const { links, nodes } = topology
  return tree.links.link.map((link, i) => {
    const a = `${nodes.name[links.a[link] as number]}[${links.port_a[link]}]`
    const b = `${nodes.name[links.b[link] as number]}[${links.port_b[link]}]`
    const isAbove = tree.links.is_a_above[i] === true
    const way = (isAb: boolean): Way => ({
      packets: tree.traffic?.packets_per_second[isAb ? 'ab' : 'ba'][i] ?? null,
      bytes: tree.traffic?.bound_bytes_per_second[isAb ? 'ab' : 'ba'][i] ?? null,
      loss: tree.traffic?.loss[isAb ? 'ab' : 'ba'][i] ?? null,
    })
    return {
      link,
      depth: tree.links.depth[i] as number,
      name: isAbove ? `${a} → ${b}` : `${b} → ${a}`,
      mlids: tree.traffic?.mlids[i] ?? null,
      down: way(isAbove),
      up: way(!isAbove),
    }
  })
}

/** Lost packets: how many at least, of how many. */
export function lossText(loss: Loss | null): string {
  if (loss === null) return '–'
  return loss.lost_packets === 0 ? '0' : `≥ ${short(loss.lost_packets)} of ${short(loss.packets)}`
}

/** Members by node name; those that nobody found last. */
export const sorted = (members: readonly Member[]) =>
  [...members].sort((a, b) => Number(a.name === null) - Number(b.name === null) || byName(a.name ?? a.port_guid, b.name ?? b.port_guid))
