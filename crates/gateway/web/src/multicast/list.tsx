// Multicast groups of all fabrics, or of one: what each is for, who has joined, and packets a second.
import { useEffect, useState } from 'preact/hooks'
import { type Groups, type Subnets, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { mlidText } from '../fabric/model.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { TimeBar } from '../shell/time.tsx'
import { counted, matches, short } from '../text.ts'
import { groupPath, setQuery } from '../url.ts'
import { Known } from './known.tsx'
import { type Group, memberCount, packets, purpose, withoutTree } from './text.ts'

const LIVE_MS = 15_000
/** Rows that are shown at once; the filter finds the others. */
const ROWS = 300

export function GroupsPage({ query }: { query: URLSearchParams }) {
  const subnets = useLive<Subnets>(address('/subnets'), 60_000)
  const all = (subnets.data?.subnets ?? []).map((s) => s.subnet)
  const chosen = query.get('subnet')
  const [words, setWords] = useState('')
  const [shown, setShown] = useState<number | undefined>(undefined)
  return (
    <section class="page wide">
      <div class="toolbar">
        <h1>Multicast groups</h1>
        {all.length > 1 && (
          <label>
            Fabric{' '}
            <select value={chosen ?? ''} onChange={(e) => setQuery({ subnet: e.currentTarget.value }, true)}>
              <option value="">all</option>
              {all.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
        )}
        <label>
          Filter <input type="search" value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="LID, GID, name" />
        </label>
      </div>
      <Status of={[subnets]} what="list of fabrics" />
      {subnets.data && all.length === 0 && <p>No fabric has been discovered yet: run `throughline-fabric run` on a host with an adapter.</p>}
      {(chosen === null ? all : [chosen]).map((subnet) => (
        <OfSubnet key={subnet} subnet={subnet} isOnly={all.length <= 1} words={words.trim()} query={query} shown={setShown} />
      ))}
      <TimeBar at={query.get('at') ?? undefined} shown={shown} table="ib_port_counters" />
    </section>
  )
}

interface OfSubnetProps {
  subnet: string
  /** The site has no other subnet. */
  isOnly: boolean
  words: string
  query: URLSearchParams
  shown: (time: number) => void
}

function OfSubnet({ subnet, isOnly, words, query, shown }: OfSubnetProps) {
  const at = query.get('at') ?? undefined
  const live = useLive<Groups>(address(`/fabric/${part(subnet)}/groups`, { at }), at === undefined ? LIVE_MS : undefined, true)
  const groups = (live.data?.groups ?? []).filter((group) => matches(textOf(group), words))
  const time = live.data?.at_ms
  useEffect(() => {
    if (time !== undefined) shown(time)
  }, [time])
  return (
    <section aria-label={`Fabric ${subnet}`} data-testid="groups-of-subnet">
      {!isOnly && <h2>Fabric {subnet}</h2>}
      <Status of={[live]} what="multicast groups" />
      {live.data && live.data.groups.length === 0 && <p class="dim">At this time no switch forwards a multicast group, and the subnet administrator has reported none.</p>}
      {live.data && live.data.groups.length > 0 && (
        <MaybeStale live={live}>
          <Headline groups={live.data.groups} />
          <List groups={groups} of={live.data.groups.length} seconds={live.data.window_seconds} subnet={isOnly ? undefined : subnet} query={query} />
        </MaybeStale>
      )}
    </section>
  )
}

const textOf = (group: Group) => [mlidText(group.mlid), purpose(group.known), ...group.known.map((known) => `${known.mgid} ${known.name ?? ''}`)].join(' ')

/** The largest MTU of its groups. */
const mtu = (group: Group) => Math.max(0, ...group.known.map((known) => known.mtu_bytes ?? 0)) || '–'

/** What is wrong, as far as a list knows: losses stand with each group. */
function Headline({ groups }: { groups: Group[] }) {
  const wrong = withoutTree(groups)
  if (wrong.length === 0) return <p class="dim" data-testid="headline">Nothing is known to be wrong: each group with several members has a tree. Whether packets are lost stands on the page of each group.</p>
  return (
    <p class="note-line" role="note" data-testid="headline">
      No switch forwards {counted(wrong.length, 'group')} with several members: {wrong.slice(0, 3).map((group) => `${mlidText(group.mlid)} (${purpose(group.known)})`).join(', ')}.
    </p>
  )
}

interface ListProps {
  groups: Group[]
  of: number
  seconds: number
  subnet: string | undefined
  query: URLSearchParams
}

function List({ groups, of, seconds, subnet, query }: ListProps) {
  return (
    <div class="sideways">
      <table data-testid="groups">
        <caption>
          {Math.min(groups.length, ROWS)} of {counted(of, 'multicast LID')}; packets in the last {seconds} s or more, between readings of ports
        </caption>
        <thead>
          <tr>
            <th scope="col">Group</th>
            <th scope="col">For</th>
            <th scope="col" class="n">
              MTU
            </th>
            {['Members', 'Ports reached', 'Links', 'Packets'].map((title) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
            <th scope="col">Known</th>
          </tr>
        </thead>
        <tbody>
          {groups.slice(0, ROWS).map((group) => (
            <tr key={group.mlid}>
              <th scope="row">
                <a href={groupPath(mlidText(group.mlid), { subnet: query.get('subnet') ?? subnet, at: query.get('at') ?? undefined })}>{mlidText(group.mlid)}</a>
              </th>
              <td>{purpose(group.known)}</td>
              <td class="n">{mtu(group)}</td>
              <td class="n">{short(memberCount(group.known))}</td>
              <td class="n">{group.adapters}</td>
              <td class="n">{group.links}</td>
              <td class="n">
                {group.packets_kind === 'bound' && '≤ '}
                {packets(group.packets_per_second)}
              </td>
              <td>
                <Known kind={group.packets_kind} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
