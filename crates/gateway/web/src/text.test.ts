import { expect, it } from 'vitest'
import { byName, counted, duration, jobName, mark, matches, numberedKey, percent, rate, short, used } from './text.ts'

it('numbers have three digits and a prefix', () => {
  expect(short(0)).toBe('0')
  expect(short(999)).toBe('999')
  expect(short(999.9)).toBe('1.00 k')
  expect(short(12_240_000_000)).toBe('12.2 G')
  expect(short(-1500)).toBe('-1.50 k')
  expect(rate(12.2e9)).toBe('12.2 GB/s')
  expect(rate(null)).toBe('–')
})
it('counts things', () => {
  expect([0, 1, 2].map((n) => counted(n, 'job'))).toEqual(['0 jobs', '1 job', '2 jobs'])
})
it('shares and durations', () => {
  expect([0, 0.0004, 0.05, 0.9, 1].map(percent)).toEqual(['0 %', '<0.1 %', '5.0 %', '90 %', '100 %'])
  expect([0.0000021, 0.25, 3, 59.6, 65, 7500, 90000].map(duration)).toEqual(['2.10 µs', '250 ms', '3.0 s', '1 min', '1 min 5 s', '2 h 5 min', '1 d 1 h'])
})
it('names are ordered by their numbers and found by words', () => {
  expect(['leaf10', 'leaf2', 'leaf1'].sort(byName)).toEqual(['leaf1', 'leaf2', 'leaf10'])
  expect(matches('Leaf001[3] – spine2[7]', 'leaf spine2')).toBe(true)
  expect(matches('leaf001', 'leaf spine')).toBe(false)
})
it('marks of time are hours of 24, and days at their beginning', () => {
  const at = (h: number, m: number, s: number) => new Date(2026, 0, 31, h, m, s).getTime() / 1000
  expect([mark(at(13, 5, 0), 300), mark(at(13, 5, 10), 10), mark(at(0, 0, 0), 3600), mark(at(12, 0, 0), 86_400)]).toEqual(['13:05', '13:05:10', '01-31', '01-31'])
})
it('no link is more than full', () => {
  expect([null, 0.5, 1, 1.0004].map(used)).toEqual(['–', '50 %', '100 %', '100 %'])
  expect([1.001, 2.43].map(used)).toEqual(['> 100 %, uneven readings', '> 100 %, uneven readings'])
})
it('a job has the name of its scheduler, else that of its program', () => {
  const job = { job_key: 'slurm:7.0@1000', name: 'weather', command: '/opt/bin/wrf.exe -n 4' }
  expect(jobName(job)).toBe('weather')
  expect(jobName({ ...job, name: null })).toBe('wrf.exe')
  expect(jobName({ ...job, name: null, command: null })).toBe('slurm:7.0@1000')
})
it('a key with a SLUID has the number of the job before it', () => {
  expect(numberedKey({ job_key: 'slurm:demo:7.0@1000', native_id: '7' })).toBe('slurm:demo:7.0@1000')
  expect(numberedKey({ job_key: 'slurm:demo:s1N9M8EM2AVH00.0@1000', native_id: '1' })).toBe('1 slurm:demo:s1N9M8EM2AVH00.0@1000')
  expect(numberedKey({ job_key: 'local:0f@1000', native_id: null })).toBe('local:0f@1000')
})
