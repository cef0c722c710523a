import { describe, expect, it } from 'vitest'
import type { DirectionShares, JobLinkShares, LinkContributor } from './api/client.ts'
import { fixture } from './fabric/fixture.ts'
import { linkId } from './fabric/model.ts'
import { colourOf, jobValues, ofSpeed, shareText, stacked, whoKey, whoName } from './shares.ts'

const one = (contributor: LinkContributor['contributor'], bytes: number, more: Partial<LinkContributor> = {}) =>
  ({ contributor, label: contributor, job_key: null, job_name: null, user: null, operation: null, name: null, bytes, series: [], ...more }) as LinkContributor
const direction = (contributors: LinkContributor[]) => ({ contributors }) as unknown as DirectionShares

describe('contributors', () => {
  it('are called without their operation', () => {
    expect(whoName(one('job', 1, { operation: 'alltoall', label: 'alltoall of job 4711 (alice)' }))).toBe('job 4711 (alice)')
    expect(whoName(one('host', 1, { label: 'unmonitored host n07' }))).toBe('unmonitored host n07')
  })

  it('have the same colour in both directions, nobody is grey, and more than there are colours share one', () => {
    const [a, b, c] = [one('job', 5, { job_key: 'a' }), one('job', 4, { job_key: 'b' }), one('host', 3, { name: 'c' })]
    const of = colourOf([direction([a, b, one('rest', 9)]), direction([{ ...b, bytes: 4 }, c, one('other', 1)])], ['red', 'blue'], ['grey', 'pale'])
    expect([a, b, c, one('rest', 0), one('other', 0)].map((who) => of.get(whoKey(who)))).toEqual(['blue', 'red', 'grey', 'pale', 'grey'])
  })

  it('have the interval beside the share only where it shows', () => {
    expect(shareText({ share: 0.62, low_share: 0.31, high_share: 1 })).toEqual({ share: '62 %', between: '31 % to 100 %' })
    expect(shareText({ share: 0.62, low_share: 0.6199, high_share: 0.6201 })).toEqual({ share: '62 %', between: null })
    expect(shareText({ share: null, low_share: null, high_share: null })).toEqual({ share: '–', between: null })
  })

  it('lie on each other, with a gap where nothing is known', () => {
    expect(stacked([[1, null, 3], [10, null, 30]])).toEqual([[1, null, 3], [11, null, 33]])
    expect([ofSpeed(50, 1, 10), ofSpeed(50, 0, 10), ofSpeed(50, 1, 0)]).toEqual([0.5, null, null])
  })
})

describe('the bytes of a job', () => {
  const topology = fixture()
  const [a, b] = [topology.links.a[3] as number, topology.links.b[3] as number]
  const link = (isA: boolean, bytes: number, subnet = topology.subnet) => {
    const [node, port] = isA ? [a, topology.links.port_a[3]] : [b, topology.links.port_b[3]]
    const guid = topology.nodes.guid[node]
    return { subnet, link: `${guid}.${port}`, from: { guid, port }, windows: 1, bytes_per_second: 10, own: { bytes } }
  }
  const shares = (links: unknown[]) => ({ links }) as JobLinkShares

  it('are at the end that sends, as a share of the speed that is at most all of it', () => {
    const values = jobValues(topology, shares([link(true, 25), link(false, 120)]))
    expect([values?.a[3], values?.b[3], values?.links]).toEqual([0.25, 1, [3]])
    expect([values?.a[0], values?.b[0]]).toEqual([0, 0])
    expect(linkId(topology, 3)).toBe(link(true, 0).link)
  })

  it('of another subnet, or of no link, are none', () => {
    expect(jobValues(topology, shares([link(true, 25, '0x1')]))).toBeNull()
    expect(jobValues(topology, shares([]))).toBeNull()
    expect(jobValues(topology, undefined)).toBeNull()
  })
})
