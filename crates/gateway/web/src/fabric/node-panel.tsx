// A chosen switch or adapter, and its links with their load.
import type { Load, Topology } from '../api/client.ts'
import { type Quantity, step } from '../colour.ts'
import { Panel } from '../shell/panel.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { counted, rate, short, used } from '../text.ts'
import { nodePath } from '../url.ts'
import { foldedHosts } from './layout.ts'
import { hostOf, routingText, valuesOf } from './model.ts'
import { type Pick, linksOf } from './picture.ts'
import { Swatch } from './swatch.tsx'

interface Props {
  topology: Topology
  node: number
  load: Load | undefined
  quantity: Quantity
  preferences: Preferences
  isOpen: boolean
  choose: (pick: Pick | null) => void
  toggle: (leaf: number) => void
}

export function NodePanel({ topology, node, load, quantity, preferences, isOpen, choose, toggle }: Props) {
  const { nodes, links } = topology
  const values = load === undefined ? undefined : valuesOf(load, quantity)
  const hosts = foldedHosts(nodes).get(node)
  const name = nodes.name[node] ?? ''
  const agentHost = nodes.host[node] ?? null
  const host = agentHost ?? (topology.kinds[nodes.kind[node] as number] === 'adapter' ? hostOf(name) : null)
  const list = (linksOf(topology)[node] ?? []).map((i) => {
    const isA = links.a[i] === node
    return {
      i,
      port: (isA ? links.port_a[i] : links.port_b[i]) as number,
      other: (isA ? links.b[i] : links.a[i]) as number,
      otherPort: isA ? links.port_b[i] : links.port_a[i],
      out: isA ? values?.a[i] : values?.b[i],
      back: isA ? values?.b[i] : values?.a[i],
    }
  })
  list.sort((p, q) => p.port - q.port)
  const format = (value: number | null | undefined) => (quantity === 'errors' ? short(value, '/s') : used(value))
  return (
    <Panel title={name} close={() => choose(null)}>
      <dl>
        <dt>Kind</dt>
        <dd>{topology.kinds[nodes.kind[node] as number]}</dd>
        <dt>GUID</dt>
        <dd>
          <code>{nodes.guid[node]}</code>
        </dd>
        <dt>LID</dt>
        <dd>{nodes.lid[node]}</dd>
        {topology.kinds[nodes.kind[node] as number] === 'switch' && (
          <>
            <dt>Routing</dt>
            <dd>{routingText(nodes.routing[node])}</dd>
          </>
        )}
        <dt>Layer</dt>
        <dd>{nodes.layer[node] ?? 'reaches no host'}</dd>
        {host && (
          <>
            <dt>Host</dt>
            <dd>
              <a href={nodePath(host)}>{host}</a>
              {agentHost === null && ' (no agent)'}
            </dd>
          </>
        )}
      </dl>
      {hosts && (
        <button type="button" aria-expanded={isOpen} onClick={() => toggle(node)}>
          {isOpen ? 'Fold' : 'Open'} its {counted(hosts.length, 'host')}
        </button>
      )}
      <table>
        <caption>{counted(list.length, 'link')}</caption>
        <thead>
          <tr>
            <th scope="col" class="n">
              Port
            </th>
            <th scope="col">To</th>
            <th scope="col" class="n">
              Speed
            </th>
            <th scope="col" class="n">
              {quantity === 'errors' ? 'Here' : 'Out'}
            </th>
            <th scope="col" class="n">
              {quantity === 'errors' ? 'There' : 'In'}
            </th>
          </tr>
        </thead>
        <tbody>
          {list.map(({ i, port, other, otherPort, out, back }) => (
            <tr key={i}>
              <td class="n">{port}</td>
              <td>
                <button type="button" class="plain" onClick={() => choose({ link: i })}>
                  {nodes.name[other]}[{otherPort}]
                </button>
              </td>
              <td class="n">{rate(links.bytes_per_second[i])}</td>
              <td class="n">
                <Swatch step={step(quantity, out, load?.thresholds)} preferences={preferences} /> {format(out)}
              </td>
              <td class="n">
                <Swatch step={step(quantity, back, load?.thresholds)} preferences={preferences} /> {format(back)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  )
}
