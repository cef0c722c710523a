// Whose bytes are on links: what the pages make of the API's contributors. Pure.
import type { DirectionShares, JobLinkShares, LinkContributor, ShareFigures, Topology } from './api/client.ts'
import { findLink, type Values } from './fabric/model.ts'
import { percent } from './text.ts'

/** Windows of shares, milliseconds. */
export const WINDOW_MS = 10_000

/** What the kinds of a figure mean, for a reader who wonders. */
export const KINDS: Record<ShareFigures['kind'], string> = {
  measured: 'messages that the MPI library reported',
  modelled: "the job's operations, laid out by their algorithm",
  logical: "the job's send buffers and the ranks that they were meant for; the way in between is not known",
  unreported: 'found in the port counters alone: nobody reported it',
}
export const BOUND = 'some of it may have taken other links: only the bounds are known'

/** One contributor in all directions and times. */
export const whoKey = (c: LinkContributor) => [c.contributor, c.job_key, c.operation, c.name].map((part) => part ?? '').join('\n')

/** Contributors that are nobody in particular: they are drawn in grey and stand last. */
export const isNobody = (c: LinkContributor) => c.contributor === 'other' || c.contributor === 'rest'

/** The contributor without its operation: `job 4711 (alice)` of `alltoall of job 4711 (alice)`. */
export function whoName(c: LinkContributor): string {
  const head = c.operation === null ? '' : `${c.operation} of `
  return head !== '' && c.label.startsWith(head) ? c.label.slice(head.length) : c.label
}

/** Colours by key: jobs, and then others, each the largest of both directions first, get one each as far as there are. */
export function colourOf(directions: readonly DirectionShares[], colours: readonly string[], grey: readonly [string, string]): Map<string, string> {
  const sums = new Map<string, { bytes: number; isJob: boolean }>()
  for (const c of directions.flatMap((d) => d.contributors)) {
    if (!isNobody(c)) sums.set(whoKey(c), { bytes: (sums.get(whoKey(c))?.bytes ?? 0) + c.bytes, isJob: c.contributor === 'job' })
  }
  const named = [...sums].sort(([p, a], [q, b]) => Number(b.isJob) - Number(a.isJob) || b.bytes - a.bytes || (p < q ? -1 : 1)).map(([key]) => key)
  const result = new Map(named.map((key, i) => [key, colours[i] ?? grey[0]]))
  for (const c of directions.flatMap((d) => d.contributors)) {
    if (isNobody(c)) result.set(whoKey(c), c.contributor === 'other' ? grey[0] : grey[1])
  }
  return result
}

/** A share, and between which it lies where that is not the same in what is shown. No share is more than all. */
export function shareText(f: Pick<ShareFigures, 'share' | 'low_share' | 'high_share'>): { share: string; between: string | null } {
  const [share, low, high] = [percent(f.share), percent(f.low_share), percent(f.high_share)]
  return { share, between: f.low_share === null || f.high_share === null || (low === share && high === share) ? null : `${low} to ${high}` }
}

/** Bytes of some windows as a share of a speed; null where the speed is not known. */
export function ofSpeed(bytes: number, windows: number, bytesPerSecond: number): number | null {
  return windows === 0 || bytesPerSecond <= 0 ? null : bytes / (windows * (WINDOW_MS / 1000)) / bytesPerSecond
}

/** Sums of lists from the first on, for areas that lie on each other. Where nothing is known there is no area. */
export function stacked(lists: readonly (readonly (number | null)[])[]): (number | null)[][] {
  const sums: (number | null)[][] = []
  for (const list of lists) {
    const below = sums.at(-1)
    sums.push(list.map((value, i) => (value === null ? null : value + (below?.[i] ?? 0))))
  }
  return sums
}

/** What a job put on the links of a subnet, in shares of their speed by end. Links without a share of it have 0 where the job
 * has a share of any link: nothing is known of a job without. Null where it has none in this subnet. */
export function jobValues(topology: Topology, shares: JobLinkShares | undefined): (Values & { links: number[] }) | null {
  if (shares === undefined) return null
  const none = () => topology.links.a.map(() => 0 as number | null)
  const values = { a: none(), b: none(), links: [] as number[] }
  for (const one of shares.links) {
    if (one.subnet !== topology.subnet) continue
    const i = findLink(topology, one.link)
    if (i === null) continue
    const isA = topology.nodes.guid[topology.links.a[i] as number] === one.from.guid && topology.links.port_a[i] === one.from.port
    const share = ofSpeed(one.own.bytes, one.windows, one.bytes_per_second)
    values[isA ? 'a' : 'b'][i] = share === null ? null : Math.min(share, 1)
    if (!values.links.includes(i)) values.links.push(i)
  }
  return values.links.length === 0 ? null : values
}
