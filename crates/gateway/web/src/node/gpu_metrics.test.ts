import { expect, test } from 'vitest'
import type { GpuMetrics } from '../api/client.ts'
import { Menu, chosenOf, described, seriesOf, unitOf } from './gpu_metrics.tsx'

type Metric = GpuMetrics['metrics'][number]
const metric = (name: string, fold: Metric['fold']): Metric => ({ metric: name, gpus: 2, is_rate: fold === 'rate', fold })
const METRICS = [metric('dram__bytes_read.sum', 'rate'), metric('gpc__cycles_elapsed.max', 'largest'), metric('sm__cycles_active.avg', 'mean')]

interface Rendered {
  props: { value: string; children: unknown }
}

test('the menu has each metric that the site chose, and the one of the address is selected', () => {
  const menu = Menu({ metrics: METRICS, chosen: 'sm__cycles_active.avg' }) as unknown as Rendered
  expect(menu.props.value).toBe('sm__cycles_active.avg')
  const options = menu.props.children as Rendered[]
  expect(options.map((o) => [o.props.value, o.props.children])).toEqual([
    ['dram__bytes_read.sum', 'dram__bytes_read.sum a second'],
    ['gpc__cycles_elapsed.max', 'gpc__cycles_elapsed.max'],
    ['sm__cycles_active.avg', 'sm__cycles_active.avg'],
  ])
})

test('the first is drawn where the address names none that there is', () => {
  expect(chosenOf(METRICS, null)?.metric).toBe('dram__bytes_read.sum')
  expect(chosenOf(METRICS, 'gone.avg')?.metric).toBe('dram__bytes_read.sum')
  expect(chosenOf(METRICS, 'gpc__cycles_elapsed.max')?.fold).toBe('largest')
  expect(chosenOf([], null)).toBeUndefined()
})

test('a chart has a line for each GPU, and says what its points are', () => {
  const data = { series: [{ gpu: 0, uuid: 'GPU-a', values: [1, null] }, { gpu: 3, uuid: 'GPU-b', values: [2, 3] }] } as unknown as GpuMetrics
  expect(seriesOf(data)).toEqual([
    { name: 'GPU 0', values: [1, null] },
    { name: 'GPU 3', values: [2, 3] },
  ])
  expect(METRICS.map(unitOf)).toEqual(['rate', 'count', 'count'])
  expect(described(METRICS[1] as Metric)).toBe('largest of the samples, of 2 GPUs')
})
