// One multicast LID: its groups, their members, the tree that carries it, and what ports counted on the tree's links.
import { useMemo, useState } from 'preact/hooks'
import { type Subnets, type Topology, type Tree, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { linkId, mlidText } from '../fabric/model.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { TimeBar } from '../shell/time.tsx'
import { counted, matches, rate, short } from '../text.ts'
import { fabricPath, groupsPath, nodePath } from '../url.ts'
import { type Branch, branches, lossText, packets, purpose, sorted, wrongOf } from './text.ts'

const LIVE_MS = 15_000
/** Rows of members and links that are shown at once; the filters find the others. */
const ROWS = 300

export function GroupPage({ id, query }: { id: string; query: URLSearchParams }) {
  const subnets = useLive<Subnets>(query.get('subnet') === null ? address('/subnets') : null)
  const subnet = query.get('subnet') ?? subnets.data?.subnets[0]?.subnet ?? null
  const at = query.get('at') ?? undefined
  const base = subnet === null ? null : `/fabric/${part(subnet)}`
  const live = useLive<Tree>(base === null ? null : address(`${base}/groups/${part(id)}`, { at }), at === undefined ? LIVE_MS : undefined, true)
  const topology = useLive<Topology>(base === null ? null : address(`${base}/topology`, { at }), at === undefined ? 60_000 : undefined, true)
  const tree = live.data
  const keep = { subnet: query.get('subnet') ?? undefined, at }
  return (
    <section class="page wide">
      <div class="toolbar">
        <h1>
          Multicast {tree === undefined ? id : mlidText(tree.mlid)} {tree && <small>{purpose(tree.known)}</small>}
        </h1>
        <span class="spring" />
        <a href={fabricPath({ ...keep, group: tree === undefined ? id : mlidText(tree.mlid) })}>Show on the fabric map</a>
        <a href={groupsPath(keep)}>All groups</a>
      </div>
      <Status of={[subnets, live, topology]} what="multicast group" />
      {tree && topology.data && (
        <MaybeStale live={live}>
          <Headline tree={tree} topology={topology.data} />
          <Groups tree={tree} />
          <Members tree={tree} />
          <Links tree={tree} topology={topology.data} subnet={subnet ?? undefined} at={at} />
          <Switches tree={tree} topology={topology.data} />
        </MaybeStale>
      )}
      <TimeBar at={at} shown={tree?.at_ms} table="ib_port_counters" />
    </section>
  )
}

function Headline({ tree, topology }: { tree: Tree; topology: Topology }) {
  const wrong = wrongOf(tree, topology)
  if (wrong.length > 0)
    return (
      <p class="note-line" role="note" data-testid="headline">
        {wrong.join('. ')}.
      </p>
    )
  const read = [...(tree.traffic?.loss.ab ?? []), ...(tree.traffic?.loss.ba ?? [])].some((loss) => loss !== null)
  return (
    <p class="dim" data-testid="headline">
      {tree.links.link.length === 0 ? 'Nothing is known to be wrong: it has no tree, and with fewer than two members needs none.' : read ? 'Nothing is wrong: no packet is missing on its links, and each member is reached.' : 'Nothing is known to be wrong; whether packets are lost is not known, as ports have not been read twice.'}
    </p>
  )
}

function Groups({ tree }: { tree: Tree }) {
  if (tree.known.length === 0) return <p class="dim">The subnet administrator has not reported a group with this LID: only its tree is known.</p>
  return (
    <div class="sideways">
      <table>
        <caption>{counted(tree.known.length, 'group')} with this LID, as the subnet administrator reported them</caption>
        <thead>
          <tr>
            <th scope="col">GID</th>
            <th scope="col">For</th>
            {['Partition', 'MTU', 'Rate', 'Service level', 'Members'].map((title) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {tree.known.slice(0, ROWS).map((group) => (
            <tr key={group.mgid}>
              <th scope="row">
                <code>{group.mgid}</code>
              </th>
              <td>{group.name ?? '–'}</td>
              <td class="n">0x{group.pkey.toString(16)}</td>
              <td class="n">{group.mtu_bytes ?? '–'}</td>
              <td class="n">{rate(group.rate_bytes_per_second)}</td>
              <td class="n">{group.service_level}</td>
              <td class="n">{group.members === null ? 'not reported' : group.members}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Members({ tree }: { tree: Tree }) {
  const [words, setWords] = useState('')
  const all = useMemo(() => sorted(tree.members), [tree])
  if (tree.known.length > 0 && tree.known.every((group) => !group.is_listed)) {
    return <p class="dim">Who the members are is not known: the subnet administrator does not report them to this crawler (without its SM_Key), or they are more than are recorded.</p>
  }
  if (all.length === 0) return null
  const here = words.trim() === '' ? all : all.filter((m) => matches(`${m.name ?? ''} ${m.host ?? ''} ${m.port_guid} ${m.state}`, words.trim()))
  const missed = all.filter((member) => member.is_reached === false).length
  return (
    <section aria-label="Members">
      <h2>Members</h2>
      {missed > 0 && (
        <p class="note-line" role="note">
          The tree does not reach {counted(missed, 'member')} that should receive.
        </p>
      )}
      <label class="filter">
        Filter <input type="search" value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="node, GUID, state" />
      </label>
      <div class="sideways">
        <table data-testid="members">
          <caption>
            {Math.min(here.length, ROWS)} of {counted(all.length, 'member')}
          </caption>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Port</th>
              <th scope="col">State</th>
              <th scope="col">Reached</th>
              {tree.known.length > 1 && <th scope="col">Group</th>}
            </tr>
          </thead>
          <tbody>
            {here.slice(0, ROWS).map((member) => (
              <tr key={member.mgid + member.port_guid}>
                <th scope="row">{member.host !== null ? <a href={nodePath(member.host)}>{member.name}</a> : (member.name ?? 'not found by a discovery')}</th>
                <td>
                  {member.port ?? '–'} <code class="dim">{member.port_guid}</code>
                </td>
                <td>{member.state}</td>
                <td>{member.is_reached === null ? '–' : member.is_reached ? 'yes' : 'no'}</td>
                {tree.known.length > 1 && (
                  <td>
                    <code>{member.mgid}</code>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

interface LinksProps {
  tree: Tree
  topology: Topology
  subnet: string | undefined
  at: string | undefined
}

function Links({ tree, topology, subnet, at }: LinksProps) {
  const rows = useMemo(() => (tree.topology === topology.version ? branches(topology, tree) : null), [tree, topology])
  if (rows === null) return <p class="dim">The tree is of another discovery than the names here: it is shown in a moment.</p>
  if (rows.length === 0) return <p class="dim">No switch forwards it: a group without two members needs no tree.</p>
  return (
    <section aria-label="Tree">
      <h2>Tree</h2>
      {tree.parts > 1 && (
        <p class="note-line" role="note">
          It is torn into {tree.parts} parts: members of one do not receive what is sent in another.
        </p>
      )}
      {tree.traffic === null && <p class="dim">The tree has too many ports for figures of all its links.</p>}
      <div class="sideways">
        <table data-testid="tree">
          <caption>
            {Math.min(rows.length, ROWS)} of {counted(rows.length, 'link')}, from the root down. Ports count packets of all groups of a link together, over {tree.window_seconds} s or more; bytes are a bound, lost packets are at least so many
          </caption>
          <thead>
            <tr>
              <th scope="col">Link</th>
              {['Packets down', 'Packets up', 'Bytes down', 'Bytes up', 'Lost down', 'Lost up'].map((title) => (
                <th key={title} scope="col" class="n">
                  {title}
                </th>
              ))}
              <th scope="col">Whose</th>
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, ROWS).map((row) => (
              <Row key={row.link} row={row} href={fabricPath({ subnet, at, link: linkId(topology, row.link), group: mlidText(tree.mlid) })} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function Row({ row, href }: { row: Branch; href: string }) {
  const bytes = (value: number | null) =>
    value === null || value === 0 ? (
      rate(value)
    ) : (
      <>
        ≤ {rate(value)}{' '}
        <span class="kind bound" title="Packets times the largest MTU of the link's groups and headers: ports do not count bytes of multicast.">
          bound
        </span>
      </>
    )
  return (
    <tr>
      <th scope="row" style={{ paddingLeft: `${8 + row.depth * 18}px` }}>
        <a href={href}>{row.name}</a>
      </th>
      <td class="n">{packets(row.down.packets)}</td>
      <td class="n">{packets(row.up.packets)}</td>
      <td class="n">{bytes(row.down.bytes)}</td>
      <td class="n">{bytes(row.up.bytes)}</td>
      <td class="n">{lossText(row.down.loss)}</td>
      <td class="n">{lossText(row.up.loss)}</td>
      <td>{row.mlids === null ? '–' : row.mlids === 1 ? 'this group' : `${row.mlids} groups together`}</td>
    </tr>
  )
}

/** Switches that sent less than they had to. */
function Switches({ tree, topology }: { tree: Tree; topology: Topology }) {
  const all = tree.traffic?.switches ?? []
  if (all.length === 0 || tree.topology !== topology.version) return null
  const lossy = all.filter((s) => s.loss !== null && s.loss.lost_packets > 0)
  const unknown = all.filter((s) => s.loss === null).length
  return (
    <section aria-label="Switches" data-testid="switches">
      <h2>Within switches</h2>
      {lossy.map((s) => (
        <p key={s.node} class="note-line" role="note">
          {topology.nodes.name[s.node]} sent at least {short(s.loss?.lost_packets)} multicast packets less than it had to, of {short(s.loss?.packets)} in {short(s.loss?.seconds)} s.
        </p>
      ))}
      <p class="dim">
        {lossy.length === 0 && unknown < all.length && 'No packet is missing between what came in and what went out. '}
        {unknown > 0 && `Of ${unknown === 1 ? '1 switch' : `${unknown} switches`} not all ports were read.`}
      </p>
    </section>
  )
}
