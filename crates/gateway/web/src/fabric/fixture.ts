// A small topology for tests: two pods of two leaves with hosts, two spines a pod, one core; parallel cables between
// leaf 0 and spine 0. In the API's order: by layer, pod and name.
import type { Topology } from '../api/client.ts'

interface Row {
  name: string
  kind: number
  layer: number | null
  pod: number | null
  leaf: number | null
}

export function fixture(): Topology {
  const rows: Row[] = []
  const add = (name: string, kind: number, layer: number | null, pod: number | null, leaf: number | null) =>
    rows.push({ name, kind, layer, pod, leaf }) - 1
  // Hosts are 0 to 7, leaves 8 to 11, spines 12 to 15, the core 16, a switch without hosts 17.
  for (let i = 0; i < 8; i += 1) add(`node${i} mlx5_0`, 1, 0, i < 4 ? 0 : 1, 8 + Math.floor(i / 2))
  for (let i = 0; i < 4; i += 1) add(`leaf${i}`, 0, 1, i < 2 ? 0 : 1, null)
  for (let i = 0; i < 4; i += 1) add(`spine${i}`, 0, 2, i < 2 ? 0 : 1, null)
  add('core0', 0, 3, null, null)
  add('lost', 0, null, null, null)
  const pairs: [number, number, number, number][] = []
  for (let i = 0; i < 8; i += 1) pairs.push([i, 1, 8 + Math.floor(i / 2), (i % 2) + 1])
  pairs.push([8, 3, 12, 1], [8, 4, 12, 2], [8, 5, 13, 1], [9, 3, 12, 3], [9, 4, 13, 2])
  pairs.push([10, 3, 14, 1], [10, 4, 15, 1], [11, 3, 14, 2], [11, 4, 15, 2])
  for (let i = 12; i < 16; i += 1) pairs.push([i, 9, 16, i - 11])
  const column = (k: 0 | 1 | 2 | 3) => pairs.map((p) => p[k])
  const same = (value: number) => pairs.map(() => value)
  return {
    subnet: '0xfe80000000000000',
    version: 'v1',
    at_ms: 0,
    changed_ms: 0,
    routing: null,
    layers: 4,
    pods: 2,
    kinds: ['switch', 'adapter'],
    widths: ['4x'],
    speeds: ['HDR'],
    states: ['active'],
    nodes: {
      guid: rows.map((_, i) => `0x${i.toString(16).padStart(16, '0')}`),
      name: rows.map((r) => r.name),
      kind: rows.map((r) => r.kind),
      layer: rows.map((r) => r.layer),
      pod: rows.map((r) => r.pod),
      leaf: rows.map((r) => r.leaf),
      host: rows.map(() => null),
      lid: rows.map((_, i) => i + 1),
      routing: rows.map(() => null),
    },
    links: { a: column(0), port_a: column(1), b: column(2), port_b: column(3), bytes_per_second: same(25e9), width: same(0), speed: same(0), state: same(0) },
  }
}
