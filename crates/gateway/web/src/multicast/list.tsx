// Multicast groups of a subnet: what each is for, who has joined, and packets a second.
import { useState } from 'preact/hooks'
import { type Groups, type Subnets, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { mlidText } from '../fabric/model.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { TimeBar } from '../shell/time.tsx'
import { counted, matches, short } from '../text.ts'
import { groupPath, setQuery } from '../url.ts'
import { Known } from './known.tsx'
import { type Group, memberCount, packets, purpose } from './text.ts'

const LIVE_MS = 15_000
/** Rows that are shown at once; the filter finds the others. */
const ROWS = 300

export function GroupsPage({ query }: { query: URLSearchParams }) {
  const subnets = useLive<Subnets>(address('/subnets'), 60_000)
  const all = (subnets.data?.subnets ?? []).map((s) => s.subnet)
  const subnet = query.get('subnet') ?? all[0] ?? null
  const at = query.get('t') ?? undefined
  const live = useLive<Groups>(subnet === null ? null : address(`/fabric/${part(subnet)}/groups`, { at }), at === undefined ? LIVE_MS : undefined, true)
  const [words, setWords] = useState('')
  const groups = (live.data?.groups ?? []).filter((group) => matches(textOf(group), words.trim()))
  return (
    <section class="page wide">
      <div class="toolbar">
        <h1>Multicast groups</h1>
        {all.length > 1 && (
          <label>
            Subnet{' '}
            <select value={subnet ?? ''} onChange={(e) => setQuery({ subnet: e.currentTarget.value }, true)}>
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
      <Status of={[subnets, live]} what="multicast groups" />
      {subnets.data && all.length === 0 && <p>No fabric has been discovered yet: run `throughline-fabric run` on a host with an adapter.</p>}
      {live.data && live.data.groups.length === 0 && <p class="dim">At this time no switch forwards a multicast group, and the subnet administrator has reported none.</p>}
      {live.data && live.data.groups.length > 0 && (
        <MaybeStale live={live}>
          <List groups={groups} of={live.data.groups.length} seconds={live.data.window_seconds} query={query} />
        </MaybeStale>
      )}
      <TimeBar at={at} shown={live.data?.at_ms} table="ib_port_counters" />
    </section>
  )
}

const textOf = (group: Group) => [mlidText(group.mlid), purpose(group.known), ...group.known.map((known) => `${known.mgid} ${known.name ?? ''}`)].join(' ')

/** The largest MTU of its groups. */
const mtu = (group: Group) => Math.max(0, ...group.known.map((known) => known.mtu_bytes ?? 0)) || '–'

function List({ groups, of, seconds, query }: { groups: Group[]; of: number; seconds: number; query: URLSearchParams }) {
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
                <a href={groupPath(mlidText(group.mlid), { subnet: query.get('subnet') ?? undefined, t: query.get('t') ?? undefined })}>{mlidText(group.mlid)}</a>
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
