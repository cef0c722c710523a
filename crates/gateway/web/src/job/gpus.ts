// The GPUs of a job's ranks, made ready for its page: which ones are the job's own, and how each is said.
import type { JobGpus } from '../api/client.ts'

export type JobGpu = JobGpus['gpus'][number]

/** UUIDs of the GPUs and partitions that the job uses on each host; null where that is not known of one of its ranks. */
export type OwnGpus = ReadonlyMap<string, ReadonlySet<string> | null>

export function ownGpus(data: JobGpus | undefined): OwnGpus {
  const own = new Map<string, Set<string> | null>()
  // What is beyond the limit may be on any host.
  if (data === undefined || data.left_out > 0) return own
  for (const one of data.gpus) {
    const before = own.get(one.host)
    if (one.known_by === null || before === null) {
      own.set(one.host, null)
      continue
    }
    const here = before ?? new Set<string>()
    if (one.is_own) [one.gpu, one.partition].forEach((uuid) => uuid !== null && here.add(uuid))
    own.set(one.host, here)
  }
  return own
}

/** Whether something of a GPU concerns the job: it is one of its own, or that is not known. */
export const concerns = (own: OwnGpus, host: string, gpu: string | null) => gpu === null || (own.get(host)?.has(gpu) ?? true)

/** `3`, `3, partition 0`; none and unknown differ. */
export function gpuName(one: JobGpu): string {
  if (one.gpu === null) return one.known_by === null ? 'unknown' : 'none'
  const partition = one.partition === null ? '' : `, partition ${one.partition_index ?? one.partition}`
  return `${one.index ?? one.gpu}${partition}`
}

const KNOWN: Record<string, string> = {
  driver: "driver's list of processes",
  device: 'has its device file open',
  visible: 'CUDA_VISIBLE_DEVICES',
}

/** How it is known. Of a GPU that is not its own the rank may only use it. */
export function knownBy(one: JobGpu): string {
  const word = one.evidence ?? one.known_by
  if (word === null) return '–'
  return one.gpu !== null && !one.is_own ? `${KNOWN[word]}: may use it` : (KNOWN[word] ?? word)
}

const DISTANCES: Record<string, string> = { switch: 'PIX', switches: 'PXB', host_bridge: 'PHB', numa_node: 'NODE', system: 'SYS' }

/** The nearest port, how far it is in nvidia-smi's words, and whether the rank sends by another one. */
export function nearestPort(one: JobGpu): string {
  if (one.port === null) return '–'
  const distance = one.distance === null ? '' : ` (${DISTANCES[one.distance] ?? one.distance})`
  return `${one.port}${distance}${one.has_queue_pairs === false ? ', not used' : ''}`
}

/** Rows of the page: what a rank only may use beside its own is left out, unless nothing better is known. */
export const shownGpus = (data: JobGpus) => data.gpus.filter((one) => one.is_own || one.gpu === null || one.known_by === null)
