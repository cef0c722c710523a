// Where the time of a job's ranks went, in lines that add up to all of it, by node where there are several.
import { useMemo } from 'preact/hooks'
import { type AccountSteps, type JobAccount, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import { Chart, type Series } from '../shell/chart.tsx'
import type { Preferences } from '../shell/preferences.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { asOf, duration, moment, percent } from '../text.ts'

type Line = JobAccount['lines'][number]
type Trend = JobAccount['trends'][number]

const LIVE_MS = 15_000
/** Nodes and ranks that are shown: those with the least computing. */
const ROWS = 8

const NAMES: Record<Line['line'], string> = {
  computing: 'Computing',
  waiting_for_core: 'Waiting for a core',
  throttled: 'Waiting for a core, as the CPU quota is used up (at least)',
  in_file: 'In a file',
  asleep: 'Asleep',
  at_lock: 'At a lock',
  stopped: 'Stopped by a signal',
  off_processor: 'Off the processor, reason not known',
  waiting_for_ranks: 'In MPI: waiting for other ranks (by durations of calls)',
  partner_without_core: 'In MPI: its partner is there, but it has no core (at least)',
  in_open_calls: 'In MPI: in calls that have not returned',
  starting_messages: 'In MPI: starting messages',
  moving_data: 'In MPI: moving data',
  in_mpi: 'In MPI',
}

/** Columns of nodes and ranks: lines that are one subject. */
const GROUPS: readonly [title: string, group: Line['group']][] = [
  ['Computing', 'computing'],
  ['Waiting for a core', 'waiting_for_core'],
  ['Off the processor', 'off_processor'],
  ['In MPI', 'in_mpi'],
]

/** `12 s to 20 s` where the two differ. */
export function between(line: Pick<Line, 'seconds' | 'low' | 'high'>): string {
  return line.high - line.low > 0.01 * line.seconds + 0.0005 ? `${duration(line.low)} to ${duration(line.high)}` : ''
}

/** The part of the time that a line has, or all lines of a group. */
export function share(of: { lines: Line[]; elapsed_seconds: number }, chosen: (line: Line) => boolean): number | null {
  if (of.elapsed_seconds <= 0) return null
  return of.lines.filter(chosen).reduce((sum, one) => sum + one.seconds, 0) / of.elapsed_seconds
}

/** What a line does over the run. */
export function sentence(of: Trend): string {
  const name = NAMES[of.line]
  if (of.trend === 'grows') return `${name}: grows since ${moment(of.time_ms)}: ${percent(of.since)} of the time, ${percent(of.before)} before.`
  return `${name}: only at the start: ${percent(of.before)} of the time until ${moment(of.time_ms)}, ${percent(of.since)} since.`
}

/** Parts of the ranks' time by line; null where nothing is known of a step. */
export function course(of: AccountSteps): Series[] {
  return of.lines.map((line) => ({
    name: NAMES[line.line],
    values: line.seconds.map((seconds, at) => {
      const elapsed = of.elapsed_seconds[at] ?? 0
      return elapsed > 0 ? seconds / elapsed : null
    }),
  }))
}

/** As of when an account is. */
function asOfWords(of: JobAccount): string {
  if (of.as_of !== null) return asOf(of.as_of)
  return of.oldest_ms === null ? '' : `as of ${moment(of.oldest_ms)}`
}

export function AccountView({ job, isLive, preferences }: { job: string; isLive: boolean; preferences: Preferences }) {
  const live = useLive<JobAccount>(address(`/jobs/${part(job)}/account`), isLive ? LIVE_MS : undefined, true)
  const data = live.data
  if (data && data.lines.length === 0) return null
  return (
    <section aria-label="Where the time went" data-testid="account">
      <h2>
        Where the time went {data && <small>{asOfWords(data)}</small>}
      </h2>
      <Status of={[live]} what="account of time" />
      {data && (
        <MaybeStale live={live}>
          <div class="sideways">
            <table>
              <caption>
                {duration(data.elapsed_seconds)}, summed over {data.ranks - data.ranks_without} ranks, from the end of MPI_Init on
                {data.ranks_without > 0 && `; without ${data.ranks_without} ranks that report no account`}
              </caption>
              <thead>
                <tr>
                  <th scope="col">Line</th>
                  {['Share', 'Time', 'Between'].map((title) => (
                    <th key={title} scope="col" class="n">
                      {title}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {data.lines.map((one) => (
                  <tr key={one.line}>
                    <th scope="row">{NAMES[one.line]}</th>
                    <td class="n">{percent(share(data, (line) => line.line === one.line))}</td>
                    <td class="n">{duration(one.seconds)}</td>
                    <td class="n">{between(one)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {data.trends.map((one) => (
            <p key={`${one.line} ${one.trend}`} data-testid="trend">
              {sentence(one)}
            </p>
          ))}
          <Course job={job} isLive={isLive} preferences={preferences} />
          {data.nodes.length > 1 && <Parts caption="Nodes with the least computing" head="Node" rows={data.nodes.map((one) => ({ name: one.node, ...one }))} />}
          {data.by_rank.length > 1 && <Parts caption="Ranks with the least computing" head="Rank" rows={data.by_rank.map((one) => ({ name: `${one.rank}`, ...one }))} />}
        </MaybeStale>
      )}
    </section>
  )
}

/** The run in steps of 10 s, or of as many as fit. */
function Course({ job, isLive, preferences }: { job: string; isLive: boolean; preferences: Preferences }) {
  const live = useLive<AccountSteps>(address(`/jobs/${part(job)}/account-steps`), isLive ? LIVE_MS : undefined, true)
  const series = useMemo(() => (live.data ? course(live.data) : []), [live.data])
  const data = live.data
  return (
    <>
      <Status of={[live]} what="account over time" />
      {data && data.elapsed_seconds.some((elapsed) => elapsed > 0) && (
        <Chart
          title={`Parts of the ranks' time, in steps of ${duration(data.step_ms / 1000)}`}
          times={data.time_ms}
          series={series}
          unit="share"
          height={180}
          preferences={preferences}
          isStacked
        />
      )}
    </>
  )
}

function Parts({ caption, head, rows }: { caption: string; head: string; rows: { name: string; lines: Line[]; elapsed_seconds: number }[] }) {
  return (
    <div class="sideways">
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            <th scope="col">{head}</th>
            {GROUPS.map(([title]) => (
              <th key={title} scope="col" class="n">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS).map((one) => (
            <tr key={one.name}>
              <th scope="row">{one.name}</th>
              {GROUPS.map(([title, group]) => (
                <td key={title} class="n">
                  {percent(share(one, (line) => line.group === group))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
