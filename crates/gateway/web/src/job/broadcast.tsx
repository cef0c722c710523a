// A job's broadcasts: bytes a second that each rank got in MPI_Bcast, the slowest first, and the PCIe links of its hosts.
import { useMemo } from 'preact/hooks'
import { type Broadcast, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { isNarrow, pcieUsed } from '../node/tables.tsx'
import { MaybeStale, Status } from '../shell/status.tsx'
import { asOf, bytes, counted, duration, moment, rate, short } from '../text.ts'
import { nodePath } from '../url.ts'

const LIVE_MS = 15_000
/** Rows that are shown: the slowest ranks, and the hosts whose PCIe links are used most. */
const ROWS = 50

const KINDS = {
  modelled: 'Broadcasts went to all ranks, as calls and bytes of all ranks fit these: each got what the roots passed.',
  bound: 'Some broadcasts went to other groups of ranks: the size classes of the calls bound what arrived.',
} as const

export function BroadcastView({ job, isLive }: { job: string; isLive: boolean }) {
  const live = useLive<Broadcast>(address(`/jobs/${part(job)}/broadcast`), isLive ? LIVE_MS : undefined)
  const data = live.data
  return (
    <section aria-label="Broadcast" data-testid="broadcast">
      <h2>
        Broadcast <small>{asOf(data?.as_of ?? null)}</small>
      </h2>
      <Status of={[live]} what="broadcasts" />
      {data && (
        <MaybeStale live={live}>
          <Ranks ranks={data.ranks} />
          <Hosts data={data} />
        </MaybeStale>
      )}
    </section>
  )
}

/** Places of ranks, those that got the fewest bytes a second first; those that only sent last. */
export function slowestFirst(ranks: Broadcast['ranks']): number[] {
  const got = (i: number) => ((ranks.received_high_bytes[i] as number) > 0 ? (ranks.high_bytes_per_second[i] ?? Infinity) : Infinity)
  return ranks.rank.map((_, i) => i).sort((i, j) => got(i) - got(j) || i - j)
}

const between = (low: string, high: string) => (low === high ? low : `${low} to ${high}`)

function Ranks({ ranks }: { ranks: Broadcast['ranks'] }) {
  const order = useMemo(() => slowestFirst(ranks), [ranks])
  return (
    <div class="sideways">
      <table>
        <caption>
          {Math.min(order.length, ROWS)} of {counted(order.length, 'rank')} in MPI_Bcast, those with the fewest bytes a second first
        </caption>
        <thead>
          <tr>
            <th scope="col" class="n">
              Rank
            </th>
            <th scope="col">Host</th>
            {['Calls', 'Sent as the root', 'Received', 'Time inside', 'Received a second'].map((title) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
            <th scope="col">Known</th>
          </tr>
        </thead>
        <tbody>
          {order.slice(0, ROWS).map((i) => {
            const kind = ranks.kind[i] as keyof typeof KINDS
            const host = ranks.host[i] ?? null
            return (
              <tr key={ranks.rank[i]}>
                <th scope="row" class="n">
                  {ranks.rank[i]}
                </th>
                <td>{host === null ? '–' : <a href={nodePath(host)}>{host}</a>}</td>
                <td class="n">{short(ranks.calls[i])}</td>
                <td class="n">{bytes(ranks.sent_bytes[i])}</td>
                <td class="n">{between(bytes(ranks.received_low_bytes[i]), bytes(ranks.received_high_bytes[i]))}</td>
                <td class="n">{duration(ranks.elapsed_seconds[i])}</td>
                <td class="n">{between(rate(ranks.low_bytes_per_second[i]), rate(ranks.high_bytes_per_second[i]))}</td>
                <td>
                  <span class={`kind ${kind}`} title={KINDS[kind]}>
                    {kind}
                  </span>
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

function Hosts({ data }: { data: Broadcast }) {
  const most = (a: (typeof data.hosts)[number]['adapters'][number]) => Math.max(a.pcie?.out_share ?? -1, a.pcie?.in_share ?? -1)
  const rows = useMemo(() => data.hosts.flatMap((h) => h.adapters.map((a) => ({ host: h.host, ...a }))).sort((a, b) => most(b) - most(a)), [data])
  if (rows.length === 0) return <p class="dim">No agent reports adapters of its hosts: how much of their PCIe links is free is not known.</p>
  return (
    <div class="sideways">
      <table>
        <caption>
          {Math.min(rows.length, ROWS)} of {counted(rows.length, 'adapter')} of its hosts and their PCIe links, the fullest first: means from {moment(data.from_ms)} to {moment(data.to_ms)}, of all that the host sent and received
        </caption>
        <thead>
          <tr>
            <th scope="col">Host</th>
            <th scope="col">Adapter</th>
            {['Out', 'In', 'Ports', 'PCIe', 'Of PCIe used'].map((title) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS).map((a) => (
            <tr key={`${a.host} ${a.device}`}>
              <th scope="row">
                <a href={nodePath(a.host)}>{a.host}</a>
              </th>
              <td>{a.device}</td>
              <td class="n">{rate(a.out_bytes_per_second)}</td>
              <td class="n">{rate(a.in_bytes_per_second)}</td>
              <td class="n">{rate(a.pcie?.ports_bytes_per_second)}</td>
              <td class="n">
                {rate(a.pcie?.bytes_per_second)}
                {a.pcie !== null && isNarrow(a.pcie) && <small class="between">slower than its ports</small>}
              </td>
              <td class="n">{pcieUsed(a.pcie)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
