// Every page opens with rows and names and without errors; wrong addresses show what is wrong with them.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobDetail, JobState } from '../src/api/client.ts'
import { mapDrawn, nameless, query, tab, until, launch } from './browser.ts'

const JOB = 'slurm:41.0@1000'
const JOB_PATH = `/jobs/${encodeURIComponent(JOB)}`

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

const rows = (page: Page, table: string) => page.locator(`[data-testid=${table}] tbody tr`)

const PAGES: [path: string, title: string, table: string | null, least: number][] = [
  ['/', 'Fabric', null, 0],
  ['/fabric?table=1', 'Fabric', 'links', 24],
  ['/jobs', 'Jobs', 'jobs', 2],
  ['/jobs?state=ended', 'Jobs', 'jobs', 1],
  [JOB_PATH, 'Job', 'operations', 2],
  ['/nodes', 'Nodes', 'nodes', 15],
  ['/multicast', 'Multicast groups', 'groups', 2],
  ['/multicast/0xc000', 'Multicast', 'tree', 8],
  ['/nodes/n1', 'Node', 'logical', 6],
  ['/nodes/n16', 'Node', 'adapters', 1],
]

describe('each page', () => {
  it.each(PAGES)('%s opens with rows and names and without errors', async (path, title, table, least) => {
    for (const dark of [false, true]) {
      const { page, errors, strangers, close } = await tab(browser, path, { dark })
      if (table === null) await mapDrawn(page)
      else {
        await rows(page, table).nth(least - 1).waitFor()
        expect(await rows(page, table).count()).toBe(least)
      }
      expect(await page.title()).toContain(title)
      expect(await page.getByRole('heading', { level: 1 }).count()).toBe(1)
      expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe(dark ? 'dark' : 'light')
      expect(await nameless(page)).toEqual([])
      expect(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)).toBe(false)
      expect(errors).toEqual([])
      expect(strangers).toEqual([])
      await close()
    }
  })

  it('has the same data in the table of links', async () => {
    const { page, close } = await tab(browser, '/fabric?table=1&colour=waiting')
    // The first cable waits half of its time, and nothing else waits: it is the first row.
    const first = rows(page, 'links').first()
    await until('the waiting link is first', async () => (await first.innerText()).includes('50 %'))
    expect(await first.innerText()).toMatch(/leaf1\[1\].*n1 mlx5_0\[1\]|n1 mlx5_0\[1\].*leaf1\[1\]/)
    await page.getByLabel('Filter').fill('spine2')
    await until('the filter holds', async () => (await rows(page, 'links').count()) === 4)
    await close()
  })
})

describe('the way around', () => {
  it('leads from jobs to a job, its map, its host and back', async () => {
    const { page, errors, close } = await tab(browser, '/jobs')
    await page.getByRole('link', { name: JOB, exact: true }).click()
    await rows(page, 'operations').first().waitFor()
    expect(new URL(page.url()).pathname).toBe(JOB_PATH)
    await page.getByRole('link', { name: 'n2', exact: true }).first().click()
    await page.getByRole('heading', { name: 'Node n2' }).waitFor()
    await page.goBack()
    await page.getByRole('link', { name: 'Show on the fabric map' }).click()
    await mapDrawn(page)
    expect(query(page).get('job')).toBe(JOB)
    await page.goBack()
    await page.goBack()
    await rows(page, 'jobs').first().waitFor()
    expect(errors).toEqual([])
    await close()
  })

  it('leads from a host to the others of its NVLink domain', async () => {
    const { page, errors, close } = await tab(browser, '/nodes/n1')
    const line = page.getByTestId('nvlink-domain')
    await line.waitFor()
    expect((await line.innerText()).trim()).toBe('NVLink domain 5d2b9c4e-7a10-4c3f-9e68-1f0a2b3c4d5e.7: 6 GPUs on 2 nodes: this one (4) n2 (2)')
    await line.getByRole('link', { name: 'n2', exact: true }).click()
    await page.getByRole('heading', { name: 'Node n2' }).waitFor()
    await page.getByTestId('nvlink-domain').getByRole('link', { name: 'n1', exact: true }).waitFor()
    expect(errors).toEqual([])
    await close()
  })

  it('shows the GPUs of a job and no other of its nodes', async () => {
    const { page, errors, close } = await tab(browser, JOB_PATH)
    const gpus = rows(page, 'gpus')
    await gpus.first().waitFor()
    const cells = await gpus.evaluateAll((all) => all.slice(0, 3).map((row) => [...row.children].slice(0, 6).map((cell) => cell.textContent ?? '')))
    expect(cells.map((row) => row[2])).toEqual(['0', '1', 'none'])
    expect(cells[0]).toEqual(['0', 'n1', '0', "driver's list of processes", 'mlx5_0/1 (PIX)', 'leaf1[1]'])
    expect(await page.getByText('n1 GPU 2', { exact: false }).count()).toBe(0)
    expect(errors).toEqual([])
    await close()
  })

  it('finds switches, hosts and jobs, by the keys alone', async () => {
    const { page, errors, close } = await tab(browser, '/jobs')
    const field = page.getByRole('combobox', { name: /search/i })
    await field.focus()
    await page.keyboard.type('leaf3')
    await page.getByRole('option', { name: /leaf3/ }).waitFor()
    await page.keyboard.press('Enter')
    await page.getByTestId('panel').getByRole('heading', { name: 'leaf3', exact: true }).waitFor()
    expect(query(page).get('node')).toBe('0x0000000000000102')
    await field.fill('grace')
    await page.getByRole('option').first().waitFor()
    await field.fill('nothing-is-called-so')
    await page.getByText('Nothing is called nothing-is-called-so').waitFor()
    expect(errors).toEqual([])
    await close()
  })

  it('lets the keyboard skip to the content', async () => {
    const { page, close } = await tab(browser, '/jobs')
    await rows(page, 'jobs').first().waitFor()
    await page.keyboard.press('Tab')
    expect(await page.evaluate(() => document.activeElement?.textContent?.trim())).toBe('Skip to content')
    await page.keyboard.press('Enter')
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('main')
    await close()
  })

  it('counts jobs in words', async () => {
    const { page, close } = await tab(browser, '/jobs')
    await page.getByText(/^2 jobs, as of/).waitFor()
    await page.getByLabel('Filter').fill('slurm:41')
    await page.getByText(/^1 job, as of/).waitFor()
    await close()
  })

  it('a list of many jobs is as new at its end as at its beginning', async () => {
    const { page, errors, close } = await tab(browser, '/nodes')
    let answers = 0
    await page.route('**/api/v1/jobs?*', async (route) => {
      const answer = await route.fetch()
      const body = (await answer.json()) as { jobs: { job_key: string; duration_seconds: number }[] }
      const one = body.jobs[0]
      if (one === undefined || !/state=live/.test(route.request().url())) return route.fulfill({ response: answer })
      answers += route.request().url().includes('totals') ? 0 : 1
      // Running for as many seconds as there were answers.
      const jobs = Array.from({ length: 100 }, (_, i) => ({ ...one, job_key: `slurm:${i}.0@1000`, duration_seconds: answers }))
      return route.fulfill({ response: answer, json: { ...body, jobs } })
    })
    await page.getByRole('link', { name: 'Jobs' }).click()
    const first = rows(page, 'jobs').first()
    await until('several answers are shown', async () => Number.parseFloat((await first.innerText()).match(/([\d.]+) s/)?.[1] ?? '0') >= 3)
    const last = rows(page, 'jobs').nth(99)
    await last.scrollIntoViewIfNeeded()
    await until('the end is new', async () => Number.parseFloat((await last.innerText()).match(/([\d.]+) s/)?.[1] ?? '0') >= 3)
    expect(await last.innerText()).toContain('slurm:99.0@1000')
    expect(errors).toEqual([])
    // An answer may still be on its way.
    await page.unrouteAll({ behavior: 'ignoreErrors' })
    await close()
  })

  it('names the state of a job as the API does', async () => {
    const { page, errors, close } = await tab(browser, '/nodes')
    // A job in each state, in place of those of the site.
    const all: Record<JobState, true> = { running: true, silent: true, lost: true, ended: true }
    const states = Object.keys(all)
    await page.route('**/api/v1/jobs?*', async (route) => {
      const answer = await route.fetch()
      const body = (await answer.json()) as { jobs: { job_key: string }[] }
      const jobs = states.map((state, i) => ({ ...body.jobs[0], job_key: `slurm:${i}.0@1000`, state }))
      return route.fulfill({ response: answer, json: { ...body, jobs } })
    })
    await page.getByRole('link', { name: 'Jobs' }).click()
    await rows(page, 'jobs').nth(states.length - 1).waitFor()
    for (const [i, state] of states.entries()) {
      const shown = page.locator('[data-testid=jobs] tbody tr', { hasText: `slurm:${i}.0@1000` }).locator('.state')
      expect(await shown.allInnerTexts()).toEqual([state])
    }
    // And the page of a real one.
    await page.unrouteAll({ behavior: 'wait' })
    await page.goto(new URL(JOB_PATH, page.url()).href)
    const job = (await (await page.request.get(new URL(`/api/v1/jobs/${encodeURIComponent(JOB)}`, page.url()).href)).json()) as JobDetail
    await page.locator('.state').first().waitFor()
    expect(await page.locator('.state').first().innerText()).toBe(job.job.state)
    expect(errors).toEqual([])
    await close()
  })

  it('stores theme and colours of the reader', async () => {
    const { page, close } = await tab(browser, '/jobs')
    await page.getByLabel('Theme').selectOption('dark')
    await page.getByLabel('Colours').selectOption('blind')
    await page.reload()
    await rows(page, 'jobs').first().waitFor()
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe('dark')
    expect(await page.getByLabel('Colours').inputValue()).toBe('blind')
    await close()
  })
})

/** A wrong address, and the text that the page shows. */
const WRONG: [path: string, shows: RegExp][] = [
  ['/nowhere', /No such page/],
  ['/jobs/no:such', /No job\. .*no:such/],
  ['/nodes/nobody', /No node\. .*nobody/],
  ['/fabric?subnet=0x0000000000000001', /No fabric\. .*0x0000000000000001.*0xfe80000000000000/s],
  ['/fabric?at=yesterday', /No fabric\. .*yesterday/s],
  ['/fabric?at=yesterday&link=0x0000000000000100.1', /No fabric\. .*yesterday/s],
  ['/fabric?at=1999-01-01T00:00:00Z', /Nothing is known of the fabric at this time/],
  ['/fabric?link=0x0000000000000bad.1', /0x0000000000000bad\.1 is not part of the fabric/],
  ['/fabric?node=0xbad', /0xbad is not part of the fabric/],
  ['/fabric?job=no:such', /No job on the map\. .*no:such/],
  ['/fabric?group=7', /No multicast group on the map\. .*0xc000/s],
  ['/fabric?group=0xc123', /No multicast group on the map\. .*0xc123/s],
  ['/fabric?colour=pink', /colour is one of utilisation, waiting, errors, not pink/],
  ['/jobs?state=late', /state is one of live, ended, not late/],
  ['/jobs?next=broken', /No jobs\. .*next/],
  [`${JOB_PATH}?from=then`, /No series\. .*then/],
  [`${JOB_PATH}?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z`, /No series\. .*from/],
  [`${JOB_PATH}?rank=x`, /Rank = x/],
  [`${JOB_PATH}?fold=twice`, /fold is one of rank, node, not twice/],
  ['/nodes/n1?at=noon', /No node\. .*noon/],
  ['/multicast/7', /No multicast group\. .*0xc000/s],
  ['/multicast/0xc123', /No multicast group\. .*0xc123/s],
  ['/multicast?at=noon', /No multicast groups\. .*noon/s],
]

describe('wrong addresses', () => {
  it.each(WRONG)('%s shows what is wrong', async (path, shows) => {
    const { page, errors, close } = await tab(browser, path)
    await until(`${path} shows ${shows}`, async () => shows.test(await page.locator('main').innerText()))
    expect(await page.getByTestId('broken').count()).toBe(0)
    // The browser itself reports each refused request.
    expect(errors.filter((text) => !/the server responded with a status of 4\d\d/.test(text))).toEqual([])
    await close()
  })
})
