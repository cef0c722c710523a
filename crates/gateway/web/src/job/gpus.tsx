// The GPUs of a job: rank, GPU, adapter and port of the fabric on one axis.
import { type JobGpus, address, part } from '../api/client.ts'
import type { Live } from '../api/live.ts'
import { MaybeStale, Status } from '../shell/status.tsx'
import { counted, moment } from '../text.ts'
import { nodePath } from '../url.ts'
import { type JobGpu, gpuName, knownBy, nearestPort, shownGpus } from './gpus.ts'

/** Rows that are written out; the API has the rest. */
const ROWS = 64

export const gpusAddress = (job: string) => address(`/jobs/${part(job)}/gpus`)

export function GpusView({ live }: { live: Live<JobGpus> }) {
  const data = live.data
  return (
    <section aria-label="GPUs" data-testid="gpus">
      <h2>GPUs</h2>
      <Status of={[live]} what="GPUs" />
      {data && (
        <MaybeStale live={live}>
          <Table data={data} />
        </MaybeStale>
      )}
    </section>
  )
}

function Table({ data }: { data: JobGpus }) {
  const rows = shownGpus(data)
  if (rows.length > 0 && rows.every((one) => one.gpu === null)) {
    const unknown = rows.filter((one) => one.known_by === null).length
    return <p class="dim">{unknown === 0 ? 'None of its ranks uses a GPU.' : `Of ${counted(unknown, 'rank')} it is not known which GPUs they use; the others use none.`}</p>
  }
  const left = rows.length - Math.min(rows.length, ROWS) + data.left_out
  const isShared = rows.some((one) => one.is_own && one.is_shared)
  return (
    <div class="sideways">
      <table>
        <caption>
          Each rank's GPU, the nearest port of an adapter, and the switch behind it{left > 0 && `; ${left} more are left out`}
          {isShared && '. Shared: links and PCIe are counted of the whole GPU, and are not this job’s alone'}
        </caption>
        <thead>
          <tr>
            <th scope="col" class="n">
              Rank
            </th>
            {['Node', 'GPU', 'Known by', 'Nearest port', 'Switch port', 'Since'].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS).map((one) => (
            <Row key={`${one.rank} ${one.gpu} ${one.partition}`} one={one} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Row({ one }: { one: JobGpu }) {
  return (
    <tr>
      <th scope="row" class="n">
        {one.rank}
      </th>
      <td>
        <a href={nodePath(one.host)}>{one.host}</a>
      </td>
      <td title={[one.partition, one.gpu].filter((uuid) => uuid !== null).join(' of ')}>
        {gpuName(one)}
        {one.is_own && one.is_shared && <small class="between">shared</small>}
      </td>
      <td>
        {knownBy(one)}
        {one.visible_devices !== null && <small class="between">CUDA_VISIBLE_DEVICES={one.visible_devices}</small>}
      </td>
      <td>{nearestPort(one)}</td>
      <td>{one.switch === null ? '–' : `${one.switch}[${one.switch_port}]`}</td>
      <td>
        {one.first_seen_ms === null ? '–' : moment(one.first_seen_ms)}
        {one.last_seen_ms !== null && <small class="between">until {moment(one.last_seen_ms)}</small>}
      </td>
    </tr>
  )
}
