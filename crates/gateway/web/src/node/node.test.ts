import { expect, test } from 'vitest'
import type { Node, NvlinkMetric } from '../api/client.ts'
import { endsOf, legendOf, stepBetween } from '../colour.ts'
import { title, unitOf } from './metrics.tsx'
import { verdicts } from './verdict.ts'

const threshold = { alert: 'NvlinkSaturated', busy_above: 0.5, full_above: 0.7, origin: 'site' } as const

const adapter = { device: 'mlx5_0', port: 1, state: 'Active', bytes_per_second: 100, out_bytes_per_second: 10, in_bytes_per_second: null, pcie: null }
const node = (adapters: object[], active: boolean[] = []) =>
  ({ thresholds: { nvlink: threshold, port: threshold }, links: { active, remote_kind: active.map(() => 'gpu') }, logical: [], adapters, clock_offset_seconds: null }) as unknown as Node

test('the first line says what is wrong with a host', () => {
  expect(verdicts(node([adapter]))).toEqual([{ isWrong: false, text: 'Nothing is wrong: all links are up, and none is full.' }])
  const full = { ...adapter, out_bytes_per_second: 71 }
  const narrow = { ...adapter, state: 'Down', pcie: { bytes_per_second: 50, ports_bytes_per_second: 100, out_share: null, in_share: null } }
  expect(verdicts(node([full, narrow], [true, false])).map((v) => v.text)).toEqual([
    '1 NVLink down',
    'port 1 of mlx5_0 is more than 70 % used',
    'port 1 of mlx5_0 is Down',
    'the PCIe link of mlx5_0 is slower than its ports',
  ])
  expect(verdicts(node([]))[0]?.text).toContain('nothing can be said')
  expect(verdicts({ ...node([adapter]), clock_offset_seconds: -299.6 })[0]?.text).toContain('its clock is 300 s behind')
})

test('colours follow the thresholds of the site', () => {
  const ends = endsOf(threshold)
  expect(ends).toEqual([0.25, 0.5, 0.7])
  expect([null, 0, 0.2, 0.4, 0.6, 0.71].map((v) => stepBetween(ends, v))).toEqual([0, 1, 2, 3, 4, 5])
  expect(legendOf(ends)).toEqual(['not read', '0', 'to 25 %', 'to 50 %', 'to 70 %', 'more'])
})

test('metrics are named by the catalogue', () => {
  const metric = (name: string, unit: string, isRate: boolean) => ({ metric: name, unit, is_rate: isRate, help: '', origin: '' }) as NvlinkMetric['metrics'][number]
  expect(title(metric('replay_errors', 'count', true))).toBe('replay errors a second')
  expect([unitOf(metric('transmit_bytes', 'bytes', true)), unitOf(metric('crc_errors', 'count', true))]).toEqual(['rate', 'count'])
})
