// NVLinks of the job's GPUs beside the messages of its ranks in the same time: the part that MPI can explain, and the rest.
import { useMemo } from 'preact/hooks'
import type { GpuTraffic } from '../api/client.ts'
import { Chart, type Series } from '../shell/chart.tsx'
import { bytes, counted, percent } from '../text.ts'
import type { Shared } from './lanes.tsx'

type Host = GpuTraffic['hosts'][number]

/** Hosts that have a chart; the others have a sentence. */
const CHARTS_MOST = 4
/** Operations with a line of their own. */
const LINES_MOST = 5

export function GpuTrafficLanes({ data, ...shared }: Shared & { data: GpuTraffic }) {
  const hosts = data.hosts
  if (hosts.length === 0) return null
  return (
    <section aria-label="NVLinks and messages" data-testid="gpu-traffic">
      {hosts.map((host, place) => (
        <div key={host.host}>
          <p>
            <strong>{host.host}</strong>: {explained(host)}
          </p>
          {place < CHARTS_MOST && host.totals !== null && data.times_ms.length > 1 && <HostChart {...shared} host={host} times={data.times_ms} />}
        </div>
      ))}
      {data.left_out > 0 && <p class="dim">{counted(data.left_out, 'more host')} not shown: jobs do much the same on all of them.</p>}
    </section>
  )
}

/** What is said of a host's bytes. */
export function explained(host: Pick<Host, 'unknown' | 'totals' | 'gpus' | 'domain'>): string {
  const { totals, unknown } = host
  if (unknown !== null) return `nothing is said of its NVLinks, as ${unknown}`
  if (totals === null) return 'its NVLinks were not read in this time'
  const gpus = `${counted(host.gpus.length, 'GPU')} of the job`
  const there = host.domain === null ? 'this host' : 'its NVLink domain'
  if (totals.nvlink_bytes === 0) return `NVLinks carried nothing into the ${gpus}; MPI sent ${bytes(totals.mpi_bytes)} to ranks on them from ${there}`
  const shared = totals.ranks_share_gpus ? ' Ranks share a GPU here: what they sent each other never left it, so that the rest is larger.' : ''
  const rest = percent(totals.residual_bytes / totals.nvlink_bytes)
  return (
    `NVLinks carried ${bytes(totals.nvlink_bytes)} into the ${gpus}. MPI from ranks of ${there} can explain at most ` +
    `${bytes(totals.explained_bytes)} (${percent(totals.explained_share)}); at least ${bytes(totals.residual_bytes)} (${rest}) came otherwise: ` +
    `other libraries (NCCL, for one), the program's own copies, other processes.${shared}`
  )
}

function HostChart({ host, times, ...shared }: Shared & { host: Host; times: readonly number[] }) {
  const lines = useMemo<Series[]>(() => {
    const operations = host.operations.slice(0, LINES_MOST).map((one) => ({ name: `MPI ${one.operation}`, values: one.values }))
    return [{ name: 'NVLink', values: host.received }, ...operations]
  }, [host])
  return <Chart {...shared} title={`${host.host}: NVLinks into the job's GPUs, and messages to ranks on them, bytes a second`} times={times} series={lines} unit="rate" height={170} />
}
