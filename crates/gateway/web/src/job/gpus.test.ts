import { expect, test } from 'vitest'
import type { JobGpus } from '../api/client.ts'
import { type JobGpu, concerns, gpuName, knownBy, nearestPort, ownGpus, shownGpus } from './gpus.ts'

const one = (over: Partial<JobGpu>): JobGpu => ({
  rank: 0, host: 'n1', known_by: 'driver', visible_devices: null, gpu: null, index: null, partition: null, partition_index: null, partition_name: null,
  evidence: null, is_own: false, is_shared: false, minor: null, first_seen_ms: null, last_seen_ms: null, port: null, distance: null, has_queue_pairs: null,
  switch: null, switch_guid: null, switch_port: null, ...over,
})
const of = (...gpus: JobGpu[]): JobGpus => ({ job_key: 'j', gpus, left_out: 0 })
const own = one({ gpu: 'GPU-0', index: 0, evidence: 'driver', is_own: true })
const part = one({ rank: 1, gpu: 'GPU-7', index: 7, partition: 'MIG-1', partition_index: 1, evidence: 'driver', is_own: true, is_shared: true })
const open = one({ rank: 1, gpu: 'GPU-3', index: 3, evidence: 'device' })

test('a job has its own GPUs and none of its neighbours', () => {
  const gpus = ownGpus(of(own, part, open, one({ rank: 2 })))
  expect(['GPU-0', 'GPU-7', 'MIG-1', 'GPU-3', 'GPU-5'].map((uuid) => concerns(gpus, 'n1', uuid))).toEqual([true, true, true, false, false])
  expect(concerns(gpus, 'n1', null)).toBe(true)
  expect(concerns(gpus, 'n2', 'GPU-5')).toBe(true)
  expect(concerns(ownGpus(of(one({}))), 'n1', 'GPU-0')).toBe(false)
})

test('where it is not known of one rank, any GPU may be its own', () => {
  const unknown = one({ rank: 3, known_by: null })
  for (const data of [of(own, unknown), of(unknown, own), { ...of(own), left_out: 1 }, undefined]) expect(concerns(ownGpus(data), 'n1', 'GPU-5')).toBe(true)
})

test('none, unknown, partitions and what a rank may only use are said differently', () => {
  const visible = one({ known_by: null, gpu: 'GPU-5', index: 5, evidence: 'visible' })
  expect([own, part, one({}), one({ known_by: null })].map(gpuName)).toEqual(['0', '7, partition 1', 'none', 'unknown'])
  expect([own, visible, one({ known_by: 'device' }), one({ known_by: null })].map(knownBy)).toEqual(["driver's list of processes", 'CUDA_VISIBLE_DEVICES: may use it', 'has its device file open', '–'])
  expect(shownGpus(of(own, part, open, visible)).map((row) => row.gpu)).toEqual(['GPU-0', 'GPU-7', 'GPU-5'])
  expect(nearestPort(one({ port: 'mlx5_0/1', distance: 'switch', has_queue_pairs: false }))).toBe('mlx5_0/1 (PIX), not used')
  expect(nearestPort(own)).toBe('–')
})
