// One job in the list. The times of running jobs change with each response, so rows far outside the window are updated when
// they come near it: laying out and painting a hundred rows costs more than all the rest of a response.
import { Component, createRef } from 'preact'
import type { Job } from '../api/client.ts'
import { verdictName } from '../job/verdicts.tsx'
import { State } from '../shell/state.tsx'
import { bytes, duration, jobName, moment, numberedKey, percent } from '../text.ts'
import { fabricPath, jobPath } from '../url.ts'

/** How far outside the window a row counts as near: one turn of the wheel. */
const NEAR_PX = 120

interface Props {
  job: Job
  totals: Job['totals'] | undefined
}

const listeners = new WeakMap<Element, (isNear: boolean) => void>()
/** One watcher for all rows, made when the first one comes. */
let watcher: IntersectionObserver | undefined
const watch = () =>
  (watcher ??= new IntersectionObserver((entries) => entries.forEach((entry) => listeners.get(entry.target)?.(entry.isIntersecting)), { rootMargin: `${NEAR_PX}px` }))

export class JobRow extends Component<Props> {
  private readonly row = createRef<HTMLTableRowElement>()
  private isNear = true
  /** Whether it shows an older response than the last one. */
  private isOld = false

  componentDidMount() {
    if (this.row.current === null) return
    listeners.set(this.row.current, (isNear) => {
      this.isNear = isNear
      if (isNear && this.isOld) this.forceUpdate()
    })
    watch().observe(this.row.current)
  }

  componentWillUnmount() {
    if (this.row.current !== null) watch().unobserve(this.row.current)
  }

  shouldComponentUpdate() {
    this.isOld = !this.isNear
    return this.isNear
  }

  render({ job, totals }: Props) {
    this.isOld = false
    return (
      <tr ref={this.row}>
        <th scope="row">
          <a href={jobPath(job.job_key)}>{numberedKey(job)}</a>
        </th>
        <td class="cut" title={[job.name, job.command].filter((text) => text !== null).join(': ')}>
          {jobName(job)} {job.name !== null && job.command !== null && <span class="dim">{job.command.split('/').pop()}</span>}
        </td>
        <td>{job.user ?? '–'}</td>
        <td>
          <State state={job.state} />
        </td>
        <td>{job.verdict === null ? '–' : job.verdict === 'nothing_found' ? '' : verdictName(job.verdict)}</td>
        <td class="n">{moment(job.start_ms)}</td>
        <td class="n">
          <span class="ticking">{duration(job.duration_seconds)}</span>
        </td>
        <td class="n">{moment(job.end_ms)}</td>
        <td class="n">{job.only_node ?? job.nodes}</td>
        <td class="n">
          {job.ranks}
          {job.world_size !== null && job.world_size !== job.ranks ? ` of ${job.world_size}` : null}
        </td>
        <td class="n">{percent(totals?.mpi_time_share)}</td>
        <td class="n">{bytes(totals?.bytes)}</td>
        <td>
          <a href={fabricPath({ job: job.job_key })} aria-label={`Map of ${job.job_key}`}>
            map
          </a>
        </td>
      </tr>
    )
  }
}
