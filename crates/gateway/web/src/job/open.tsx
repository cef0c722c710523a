// Calls that ranks are in and have not returned from: the first thing to know of a job that hangs.
import type { JobDetail } from '../api/client.ts'
import { short } from '../text.ts'

type OpenCalls = JobDetail['open_calls'][number]

/** `0, 1, 2, …` of as many as there are. */
export function someOf(examples: number[], all: number): string {
  return examples.join(', ') + (all > examples.length ? ', …' : '')
}

/** `138 s`, or `12 to 138 s` where ranks came at different times. */
export function openFor(call: Pick<OpenCalls, 'shortest_seconds' | 'longest_seconds'>): string {
  const [shortest, longest] = [Math.floor(call.shortest_seconds), Math.floor(call.longest_seconds)]
  return longest - shortest > 1 ? `${shortest} to ${longest} s` : `${longest} s`
}

/** `, the oldest of irecv with rank 1, tag 12`. */
export function oldestOf(call: Pick<OpenCalls, 'oldest_request' | 'oldest_peer' | 'oldest_tag'>): string {
  if (call.oldest_request === null) return ''
  const peer = call.oldest_peer === null ? '' : ` with rank ${call.oldest_peer}`
  const tag = call.oldest_tag === null ? '' : `, tag ${call.oldest_tag}`
  return `, the oldest of ${call.oldest_request}${peer}${tag}`
}

export function OpenCallsView({ data }: { data: JobDetail }) {
  if (data.open_calls.length === 0) return null
  return (
    <section aria-label="Calls that have not returned">
      <h2>In calls that have not returned</h2>
      <div class="sideways">
        <table data-testid="open-calls">
          <caption class="hidden">MPI calls that ranks are in for a second or more, or were killed in</caption>
          <thead>
            <tr>
              <th scope="col">Operation</th>
              <th scope="col">Communicator</th>
              <th scope="col" class="n">
                For
              </th>
              <th scope="col" class="n">
                Ranks
              </th>
              <th scope="col">Which</th>
              <th scope="col">With rank</th>
              <th scope="col">Tag</th>
              <th scope="col">Pending requests</th>
            </tr>
          </thead>
          <tbody>
            {data.open_calls.map((call) => (
              <tr key={`${call.operation} ${call.comm} ${call.comm_size} ${call.have_ended}`}>
                <th scope="row">
                  {call.operation}
                  {call.have_ended ? ' (killed there)' : call.is_counted && ' in vain'}
                </th>
                <td>{call.comm ?? ''}</td>
                <td class="n">{openFor(call)}</td>
                <td class="n">
                  {short(call.ranks)}
                  {call.comm_size !== null && ` of ${short(call.comm_size)}`}
                </td>
                <td>{someOf(call.examples, call.ranks)}</td>
                <td>{call.peers.join(', ')}</td>
                <td>{call.tags.join(', ')}</td>
                <td>
                  {call.pending_requests > 0 && `${call.pending_requests}${oldestOf(call)}`}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
