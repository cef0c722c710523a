// One job: what slows it down, who and where, its operations, who sends to whom, and all of it over time beside the links of its hosts.
import { type Job, type JobDetail, type JobGpus, address, part } from '../api/client.ts'
import { useLive } from '../api/live.ts'
import type { Preferences } from '../shell/preferences.ts'
import { State } from '../shell/state.tsx'
import { MaybeStale, Status } from '../shell/status.tsx'
import { asOf, bytes, duration, jobName, moment, percent, short } from '../text.ts'
import { fabricPath, nodePath } from '../url.ts'
import { AccountView } from './account.tsx'
import { BroadcastView } from './broadcast.tsx'
import { BusiestLinks } from './busiest.tsx'
import { GpusView, gpusAddress } from './gpus.tsx'
import { MatrixView } from './matrix.tsx'
import { OpenCallsView } from './open.tsx'
import { PvarsView } from './pvars.tsx'
import { RecordButton } from './record.tsx'
import { RegionsView } from './regions.tsx'
import { LiveNote } from './shown.tsx'
import { Timeline } from './timeline.tsx'
import { VerdictsView } from './verdicts.tsx'
import { WaitsView } from './waits.tsx'
import { inMpi, wholeOf } from './whole.ts'

/** Hosts that are written out; the matrix folded by node has the rest. */
const HOSTS_SHOWN = 32
/** Agents look where ranks compute each few seconds at first, then each five minutes. */
const GPUS_MS = 10_000

export function JobPage({ id, query, preferences }: { id: string; query: URLSearchParams; preferences: Preferences }) {
  const live = useLive<JobDetail>(address(`/jobs/${part(id)}`), 5_000)
  const data = live.data
  return (
    <section class="page wide">
      <Status of={[live]} what="job" />
      {data ? (
        <>
          <MaybeStale live={live}>
            <Head job={data.job} data={data} />
          </MaybeStale>
          <Body data={data} query={query} preferences={preferences} />
        </>
      ) : (
        <h1>Job {id}</h1>
      )}
    </section>
  )
}

/** Who ended first without MPI_Finalize, and in which call. */
export function firstLost({ first_lost: lost }: Pick<JobDetail, 'first_lost'>): string | null {
  if (lost === null) return null
  const call = lost.operation === null ? '' : `, in ${lost.operation}${lost.operation_seconds === null ? '' : ` for ${duration(lost.operation_seconds)}`}`
  const others = lost.next_after_seconds === null ? '' : `; ${lost.ranks - 1} more, the next ${duration(lost.next_after_seconds)} later`
  return `rank ${lost.rank} on ${lost.host} without MPI_Finalize, ${moment(lost.end_ms)}${call}${others}`
}

/** What its nodes report against each other: ranks that several say they run, and facts about which they disagree. */
export function contested({ job, contests }: Pick<JobDetail, 'job' | 'contests'>): string | null {
  const ranks = contests.ranks.map(
    (one) =>
      `${one.state}: ${one.node} reports ${one.ranks === 1 ? `rank ${one.first_rank}` : `${one.ranks} ranks from ${one.first_rank} to ${one.last_rank}`} with ${one.calls === null ? 'no calls yet' : `${short(one.calls)} calls`}`,
  )
  const facts = contests.facts.map(
    ({ fact, versions }) =>
      `nodes disagree about its ${fact.replace('_', ' ')}: ${versions.map((one) => `${one.nodes === 1 ? one.node : `${one.nodes} nodes, ${one.node} for instance,`} ${one.nodes === 1 ? 'says' : 'say'} ${one.value}`).join('; ')}`,
  )
  const head = job.ranks_contested === 0 ? [] : [`${job.ranks_contested} ranks, which are in nothing else here until it is known who runs them`]
  const lines = [...head, ...ranks, ...facts]
  return lines.length === 0 ? null : lines.join('. ')
}

function Head({ job, data }: { job: Job; data: JobDetail }) {
  const facts: [string, string | null | undefined][] = [
    ['User', job.user],
    ['Account', job.account],
    ['Queue', job.queue],
    ['Started', moment(job.start_ms)],
    [job.state === 'running' ? 'Runs for' : 'Ran for', duration(job.duration_seconds)],
    ['Ended', job.end_ms === null ? null : moment(job.end_ms)],
    ['Ranks', `${job.ranks}${job.world_size === null ? '' : ` of ${job.world_size}`} on ${job.nodes} ${job.nodes === 1 ? 'node' : 'nodes'}${job.only_node === null ? '' : `, which ${job.only_node} alone reports`}`],
    ['Contested', contested(data)],
    ['Lost, silent', job.ranks_lost + job.ranks_silent === 0 ? null : `${job.ranks_lost}, ${job.ranks_silent}`],
    ['Ended first', firstLost(data)],
    ['In MPI', job.totals === null ? null : inMpi(job.totals)],
    ['Sent', job.totals === null ? null : `${bytes(job.totals.bytes)} in ${short(job.totals.calls)} calls`],
    ['These sums', asOf(job.as_of)],
    ['Library', data.libraries.join(', ')],
    ['Command', job.command],
  ]
  return (
    <>
      <div class="toolbar">
        <h1>
          {jobName(job)} <small>job {job.native_id ?? job.job_key}{job.cluster === null ? '' : ` of ${job.cluster}`}</small>
        </h1>
        <State state={job.state} />
        <span class="spring" />
        <RecordButton job={job.job_key} />
        <a class="button" href={fabricPath({ job: job.job_key })}>
          Show on the fabric map
        </a>
      </div>
      <VerdictsView data={data} />
      <dl class="facts">
        {facts.map(([name, value]) =>
          value === null || value === undefined || value === '' ? null : (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
        )}
        <div>
          <dt>Hosts</dt>
          <dd>
            {data.hosts.slice(0, HOSTS_SHOWN).map(({ host, ranks }) => (
              <span key={host}>
                <a href={nodePath(host)}>{host}</a> ({ranks}){' '}
              </span>
            ))}
            {data.hosts.length > HOSTS_SHOWN && `and ${data.hosts.length - HOSTS_SHOWN} more`}
          </dd>
        </div>
      </dl>
    </>
  )
}

function Body({ data, query, preferences }: { data: JobDetail; query: URLSearchParams; preferences: Preferences }) {
  const isLive = data.job.end_ms === null
  const shared = { job: data.job.job_key, isLive, query, preferences }
  const gpus = useLive<JobGpus>(gpusAddress(shared.job), isLive ? GPUS_MS : undefined, true)
  return (
    <>
      <LiveNote job={data.job.job_key} isLive={isLive} />
      <OpenCallsView data={data} />
      <div class="columns">
        <Operations data={data} />
        <MatrixView {...shared} kinds={data.matrices} />
      </div>
      <AccountView job={shared.job} isLive={isLive} preferences={preferences} />
      <RegionsView job={shared.job} isLive={isLive} />
      <WaitsView job={shared.job} isLive={isLive} />
      <GpusView live={gpus} />
      <BusiestLinks job={shared.job} isLive={isLive} query={query} />
      {data.operations.some((o) => o.operation === 'bcast') && <BroadcastView job={shared.job} isLive={isLive} />}
      <PvarsView {...shared} />
      <Timeline {...shared} gpus={gpus.data} operations={data.operations.map((o) => o.operation)} hosts={data.hosts.map((h) => h.host)} />
    </>
  )
}

function Operations({ data }: { data: JobDetail }) {
  const whole = wholeOf(data.job.totals)
  return (
    <section aria-label="Operations">
      <h2>
        Operations <small>{asOf(data.job.as_of)}</small>
      </h2>
      <div class="sideways">
        <table data-testid="operations">
          <caption class="hidden">Operations of all ranks, those with the most time first</caption>
          <thead>
            <tr>
              <th scope="col">Operation</th>
              {['Time', whole?.name ?? 'Share', 'Calls', 'Sent', 'Received', 'Longest'].map((title) => (
                <th key={title} scope="col" class="n">
                  {title}
                </th>
              ))}
              <th scope="col">Algorithms</th>
            </tr>
          </thead>
          <tbody>
            {data.operations.map((o) => (
              <tr key={o.operation}>
                <th scope="row">{o.operation}</th>
                <td class="n">{duration(o.elapsed_seconds)}</td>
                <td class="n">{percent(whole && o.elapsed_seconds / whole.seconds)}</td>
                <td class="n">{short(o.calls)}</td>
                <td class="n">{bytes(o.bytes)}</td>
                <td class="n">{bytes(o.received_bytes)}</td>
                <td class="n">{duration(o.longest_seconds)}</td>
                <td>{o.algorithms.map((a) => a.algorithm).filter((a) => a !== '').join(', ')}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
