// What of a job's time in MPI was waiting for other ranks, by operation, and who was waited for.
import { type JobWaits, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { asOf, duration, percent } from '../text.ts'

type Operation = JobWaits['operations'][number]
type Seconds = Operation['waiting']

const LIVE_MS = 15_000
/** Operations and last ranks that are shown. */
const ROWS = 8

/** Kinds of waiting in columns, each with its explanation. */
const KINDS: readonly [key: 'late_sender' | 'late_receiver' | 'at_collective' | 'late_root' | 'progress', title: string, text: string][] = [
  ['late_sender', 'Late sender', 'Receives before their message was sent'],
  ['late_receiver', 'Late receiver', 'Sends before their receive was posted'],
  ['at_collective', 'Last at a collective', 'Collectives before their last member arrived'],
  ['late_root', 'Late root', 'Broadcasts and scatters before their root arrived'],
  ['progress', 'Progress', 'Wait and Test calls in which a transfer went on that nothing drove before'],
]

/** `12 s`, with the bounds where they are wide; nothing for none. */
export function seconds(of: Seconds): string {
  if (of.high < 0.0005) return ''
  const isWide = of.high - of.low > 0.1 * of.seconds + 0.0005
  return isWide ? `${duration(of.seconds)} (${duration(of.low)} to ${duration(of.high)})` : duration(of.seconds)
}

/** How the seconds are known. */
export function basis(of: Pick<JobWaits, 'basis' | 'clock_error_seconds' | 'trace_unused'>): string {
  if (of.basis === 'exact') return of.clock_error_seconds ? `exact, from the trace, with clocks within ${duration(of.clock_error_seconds)}` : 'exact, from the trace'
  return of.trace_unused === null ? 'estimated from counters and sampled calls' : `estimated from counters and sampled calls; the trace is not used: ${of.trace_unused}`
}

export function WaitsView({ job, isLive }: { job: string; isLive: boolean }) {
  const live = useLive<JobWaits>(address(`/jobs/${part(job)}/waits`), isLive ? LIVE_MS : undefined, true)
  const data = live.data
  if (data && data.operations.length === 0) return null
  return (
    <section aria-label="Waiting" data-testid="waits">
      <h2>Waiting for other ranks</h2>
      <Status of={[live]} what="waiting times" />
      {data && (
        <MaybeStale live={live}>
          <p>
            {duration(data.total.waiting.seconds)} of {duration(data.total.elapsed_seconds)} in MPI, summed over ranks (
            {percent(data.total.elapsed_seconds > 0 ? data.total.waiting.seconds / data.total.elapsed_seconds : null)}), was waiting for another rank: {basis(data)}
            {data.as_of !== null && `, ${asOf(data.as_of)}`}.
          </p>
          <Operations data={data} />
          <Last data={data} />
        </MaybeStale>
      )}
    </section>
  )
}

function Operations({ data }: { data: JobWaits }) {
  return (
    <div class="sideways">
      <table>
        <caption>Operations, those with the most waiting first; in brackets the least and the most that it can be</caption>
        <thead>
          <tr>
            <th scope="col">Operation</th>
            <th scope="col" class="n">
              Time
            </th>
            {KINDS.map(([key, title, text]) => (
              <th key={key} scope="col" class="n" title={text}>
                {title}
              </th>
            ))}
            <th scope="col" class="n">
              Transfer
            </th>
          </tr>
        </thead>
        <tbody>
          {data.operations.slice(0, ROWS).map((one) => (
            <tr key={one.operation}>
              <th scope="row">{one.operation}</th>
              <td class="n">{duration(one.elapsed_seconds)}</td>
              {KINDS.map(([key]) => (
                <td key={key} class="n">
                  {seconds(one[key])}
                </td>
              ))}
              <td class="n">{seconds(one.transfer)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Last({ data }: { data: JobWaits }) {
  const last = data.last_arrivals.filter((one) => one.waited_seconds >= 0.01 * data.total.waiting.seconds).slice(0, ROWS)
  if (last.length === 0) return null
  return (
    <div class="sideways">
      <table>
        <caption>Who arrived last at collectives, by operation; those that others waited for the longest first</caption>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">Operation</th>
            <th scope="col">Members</th>
            <th scope="col" class="n">
              Last in
            </th>
            <th scope="col" class="n">
              Others waited
            </th>
          </tr>
        </thead>
        <tbody>
          {last.map((one) => (
            <tr key={`${one.rank} ${one.operation} ${one.members}`}>
              <th scope="row">{one.rank}</th>
              <td>{one.operation}</td>
              <td>{one.members}</td>
              <td class="n">{percent(one.share)} of its calls</td>
              <td class="n">{duration(one.waited_seconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
