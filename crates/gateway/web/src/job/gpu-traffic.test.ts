import { expect, it } from 'vitest'
import { explained } from './gpu-traffic.tsx'
import { headroom } from './lanes.tsx'

const totals = { seconds: 10, nvlink_bytes: 10e9, mpi_bytes: 4e9, explained_bytes: 4e9, residual_bytes: 6e9, explained_share: 0.4, ranks_share_gpus: false }

it('what MPI can explain is said to be at most, and the rest at least', () => {
  const said = explained({ unknown: null, domain: null, gpus: [0, 1], totals })
  expect(said).toContain('10 GB into the 2 GPUs of the job')
  expect(said).toContain('at most 4 GB (40 %)')
  expect(said).toContain('at least 6 GB (60 %)')
  expect(said).not.toContain('share a GPU')
  expect(explained({ unknown: null, domain: null, gpus: [0], totals: { ...totals, ranks_share_gpus: true } })).toContain('Ranks share a GPU')
})

it('what is not known is said, and is no share', () => {
  expect(explained({ unknown: 'reasons', domain: null, gpus: [], totals: null })).toBe('nothing is said of its NVLinks, as reasons')
  expect(explained({ unknown: null, domain: null, gpus: [0], totals: null })).toBe('its NVLinks were not read in this time')
  const nothing = { ...totals, nvlink_bytes: 0, explained_bytes: 0, residual_bytes: 0, explained_share: null }
  expect(explained({ unknown: null, domain: null, gpus: [0], totals: nothing })).toContain('carried nothing')
})

it('of the fullest slot what is left is said each way', () => {
  const lane = (name: string, speed: number | null, values: (number | null)[]) => ({
    kind: 'pcie' as const, name, instance: 'n1', is_shared: false, link: null, bytes_per_second: speed,
    series: [{ name: 'in' as const, unit: 'bytes_per_second' as const, values }, { name: 'out' as const, unit: 'bytes_per_second' as const, values: [null] }],
  })
  expect(headroom({ lanes: [lane('n1 GPU 0 PCIe', 64e9, [1e9, 16e9]), lane('n1 GPU 1 PCIe', 64e9, [48e9, null])] })).toBe(
    'PCIe headroom: to a GPU 16 GB/s of 64 GB/s were free at the fullest moment (n1 GPU 1 PCIe, 75 % used). Speeds are those of the slots; packet headers take some of them.',
  )
  expect(headroom({ lanes: [lane('n1 GPU 0 PCIe', null, [1e9])] })).toBe('')
})
