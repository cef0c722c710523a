// What a host's picture shows, as tables: logical links that unfold into physical ones, and adapters with their cables.
import type { Node, Pcie } from '../api/client.ts'
import { endsOf, stepBetween } from '../colour.ts'
import { Swatch } from '../fabric/swatch.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { rate, used } from '../text.ts'
import { fabricPath } from '../url.ts'
import { remoteName, share } from './drawing.ts'

interface Props {
  data: Node
  preferences: Preferences
  isUnfolded: (logical: number) => boolean
  toggle: (logical: number) => void
}

export function LogicalLinks({ data, preferences, isUnfolded, toggle }: Props) {
  if (!data.has_agent) return null
  if (data.logical.length === 0) return <p class="dim">No NVLink is active here.</p>
  const carried = (value: number | null, speed: number | null) => (
    <>
      <Swatch step={stepBetween(endsOf(data.thresholds.nvlink), share(value, speed))} preferences={preferences} /> {rate(value)}
      {(share(value, speed) ?? 0) > 1 && ` (${used(share(value, speed))})`}
    </>
  )
  return (
    <div class="sideways">
      <table data-testid="logical">
        <caption>NVLinks: all between two things in one row</caption>
        <thead>
          <tr>
            <th scope="col">From</th>
            <th scope="col">To</th>
            <th scope="col" class="n">
              Speed
            </th>
            <th scope="col" class="n">
              Out
            </th>
            <th scope="col" class="n">
              In
            </th>
          </tr>
        </thead>
        <tbody>
          {data.logical.flatMap((l, i) => [
            <tr key={i}>
              <td>
                <button type="button" class="plain" aria-expanded={isUnfolded(i)} onClick={() => toggle(i)}>
                  {isUnfolded(i) ? '▾' : '▸'} GPU {data.gpus[l.gpu]?.index}
                </button>
              </td>
              <td>
                {remoteName(data, l)} ({l.links.length})
              </td>
              <td class="n">{rate(l.bytes_per_second)}</td>
              <td class="n">{carried(l.out_bytes_per_second, l.bytes_per_second)}</td>
              <td class="n">{carried(l.in_bytes_per_second, l.bytes_per_second)}</td>
            </tr>,
            ...(isUnfolded(i)
              ? l.links.map((k) => (
                  <tr key={`${i}.${k}`} class="sub">
                    <td>link {data.links.link[k]}</td>
                    <td>{data.links.remote_link[k] === null || data.links.remote_link[k] === undefined ? '' : `link ${data.links.remote_link[k]}`}</td>
                    <td class="n">{rate(data.links.bytes_per_second[k])}</td>
                    <td class="n">{carried(data.links.out_bytes_per_second[k] ?? null, data.links.bytes_per_second[k] ?? null)}</td>
                    <td class="n">{carried(data.links.in_bytes_per_second[k] ?? null, data.links.bytes_per_second[k] ?? null)}</td>
                  </tr>
                ))
              : []),
          ])}
        </tbody>
      </table>
    </div>
  )
}

export function Adapters({ data, preferences }: { data: Node; preferences: Preferences }) {
  if (data.adapters.length === 0) return <p class="dim">No InfiniBand adapter is known here.</p>
  return (
    <div class="sideways">
      <table data-testid="adapters">
        <caption>Adapters and their cables</caption>
        <thead>
          <tr>
            <th scope="col">Port</th>
            <th scope="col">Switch</th>
            <th scope="col" class="n">
              Speed
            </th>
            <th scope="col" class="n">
              Out
            </th>
            <th scope="col" class="n">
              In
            </th>
            <th scope="col" class="n">
              PCIe
            </th>
            <th scope="col" class="n" title="Bytes of all ports of the adapter, out and in: at least, as headers of PCIe come to it.">
              Of PCIe used
            </th>
          </tr>
        </thead>
        <tbody>
          {data.adapters.map((a) => (
            <tr key={`${a.device}.${a.port}`}>
              <td>
                {a.device} {a.port} <span class="dim">{a.state}</span>
              </td>
              <td>
                {a.subnet !== null && a.link !== null ? <a href={fabricPath({ subnet: a.subnet, link: a.link, find: '1' })}>{a.leaf ?? 'cable'}</a> : (a.leaf ?? '–')}
              </td>
              <td class="n">{rate(a.bytes_per_second)}</td>
              {[a.out_bytes_per_second, a.in_bytes_per_second].map((value, i) => (
                <td key={i} class="n">
                  <Swatch step={stepBetween(endsOf(data.thresholds.port), share(value, a.bytes_per_second))} preferences={preferences} /> {rate(value)} ({used(share(value, a.bytes_per_second))})
                </td>
              ))}
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

/** Whether an adapter's PCIe link carries less than its ports could. */
export const isNarrow = (pcie: Pcie) => pcie.ports_bytes_per_second !== null && pcie.ports_bytes_per_second > pcie.bytes_per_second

/** Shares of an adapter's PCIe link that its ports use: at least so much, as headers of PCIe are not counted. */
export function pcieUsed(pcie: Pcie | null): string {
  const shares = [[pcie?.out_share, 'out'], [pcie?.in_share, 'in']] as const
  const known = shares.filter(([value]) => value !== null && value !== undefined)
  return known.length === 0 ? '–' : known.map(([value, way]) => `≥ ${used(value)} ${way}`).join(', ')
}
