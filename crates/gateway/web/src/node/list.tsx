// Hosts with an agent, by name.
import { useEffect, useState } from 'preact/hooks'
import { type Nodes, address } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { moment } from '../text.ts'
import { nodePath, setQuery } from '../url.ts'

const PAGE = 200
const REST_MS = 250

export function NodesPage({ query }: { query: URLSearchParams }) {
  const q = query.get('q') ?? undefined
  const next = query.get('next') ?? undefined
  const live = useLive<Nodes>(address('/nodes', { q, limit: PAGE, next }), 15_000, true)
  const [words, setWords] = useState(q ?? '')
  useEffect(() => setWords(q ?? ''), [q])
  useEffect(() => {
    if (words === (q ?? '')) return undefined
    const timer = setTimeout(() => setQuery({ q: words, next: undefined }), REST_MS)
    return () => clearTimeout(timer)
  }, [words])
  const data = live.data
  return (
    <section class="page wide">
      <div class="toolbar">
        <h1>Nodes</h1>
        <label>
          Filter <input type="search" value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="part of the name" />
        </label>
      </div>
      <Status of={[live]} what="nodes" />
      {data && data.nodes.length === 0 && <p class="dim">No host with an agent matches.</p>}
      {data && data.nodes.length > 0 && (
        <MaybeStale live={live}>
          <div class="sideways">
            <table class="list" data-testid="nodes">
              <caption class="hidden">Nodes</caption>
              <thead>
                <tr>
                  <th scope="col">Node</th>
                  <th scope="col" class="n">
                    GPUs
                  </th>
                  <th scope="col" class="n">
                    Adapters
                  </th>
                  <th scope="col" class="n">
                    Up since
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.nodes.map((node) => (
                  <tr key={node.host}>
                    <th scope="row">
                      <a href={nodePath(node.host)}>{node.host}</a>
                    </th>
                    <td class="n">
                      {node.gpus}
                      {node.lost_gpus > 0 && <small class="between">{node.lost_gpus} lost</small>}
                    </td>
                    <td class="n">{node.adapters}</td>
                    <td class="n">{moment(node.boot_ms)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {data.next !== null && (
            <button type="button" onClick={() => setQuery({ next: data.next ?? undefined }, true)}>
              Next page
            </button>
          )}
        </MaybeStale>
      )}
    </section>
  )
}
