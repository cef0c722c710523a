// Jobs, one job and one node: sorting, filters, the matrix, the charts on one time axis, links that unfold.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SITE, launch, query, tab, until } from './browser.ts'

const JOB_PATH = `/jobs/${encodeURIComponent('slurm:41.0@1000')}`

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

const rows = (page: Page, table: string) => page.locator(`[data-testid=${table}] tbody tr`)

describe('a node', () => {
  it('says what is wrong, whose thresholds its colours follow, and draws any metric of its NVLinks', async () => {
    const { page, errors, close } = await tab(browser, '/nodes/n1')
    await page.getByTestId('verdict').first().waitFor()
    expect(await page.getByTestId('thresholds').innerText()).toContain('default thresholds')
    const metrics = page.getByTestId('nvlink-metrics')
    await metrics.getByLabel('Metric').selectOption('receive_bytes')
    await until('it is in the address', async () => query(page).get('metric') === 'receive_bytes')
    await metrics.getByRole('img', { name: /receive bytes a second/ }).waitFor()
    expect(errors).toEqual([])
    await close()
  })
})

describe('jobs', () => {
  it('are sorted and searched by the server, and the address has it', async () => {
    const { page, errors, close } = await tab(browser, '/jobs')
    await rows(page, 'jobs').nth(1).waitFor()
    await page.getByRole('button', { name: 'Nodes' }).click()
    await until('the most nodes are first', async () => (await rows(page, 'jobs').first().innerText()).includes('slurm:41'))
    await page.getByRole('button', { name: /^Nodes/ }).click()
    await until('the least are first', async () => (await rows(page, 'jobs').first().innerText()).includes('slurm:42'))
    expect(await page.locator('th[aria-sort]').getAttribute('aria-sort')).toBe('ascending')
    await page.getByLabel('Filter').fill('grace')
    await until('one is left', async () => (await rows(page, 'jobs').count()) === 1)
    expect(Object.fromEntries(query(page))).toEqual({ order: 'asc', q: 'grace', sort: 'nodes' })
    await page.reload()
    await until('the same after a reload', async () => (await rows(page, 'jobs').count()) === 1)
    expect(await page.getByLabel('Filter').inputValue()).toBe('grace')
    await page.getByLabel('Filter').fill('')
    await page.getByRole('group', { name: 'Which jobs' }).getByRole('button', { name: 'Ended' }).click()
    await until('the ended one', async () => /slurm:40[^]*ended/.test(await page.getByTestId('jobs').innerText()))
    expect(errors).toEqual([])
    await close()
  })
})

describe('a job', () => {
  it('is called by the name that the scheduler has, and shows its command second', async () => {
    const { page, close } = await tab(browser, '/jobs')
    await until('names first', async () => /name41 solve/.test(await page.getByTestId('jobs').innerText()))
    await page.goto(SITE + JOB_PATH)
    await page.getByRole('heading', { level: 1, name: /^name41 job 41/ }).waitFor()
    await page.getByText('./solve', { exact: true }).waitFor()
    await close()
  })

  it('has its last minutes fetched from the nodes, which charts show in steps of a tenth of a second', async () => {
    const { page, errors, close } = await tab(browser, JOB_PATH)
    // While somebody looks at a job that runs, its rows are made each second.
    await until('rows each second are requested', async () => {
      const answer = await page.request.get(`${SITE}/api/v1/jobs/${encodeURIComponent('slurm:41.0@1000')}/detail`)
      const { requests } = (await answer.json()) as { requests: { reason: string }[] }
      return requests.some((request) => request.reason === 'live')
    })
    await page.getByRole('button', { name: 'Fetch last 10 min' }).click()
    const recorded = page.getByTestId('recorded')
    await until('it has arrived', async () => /^[1-9].* records$/.test(await recorded.innerText()))
    expect(await page.getByRole('button', { name: 'Fetch last 10 min' }).isEnabled()).toBe(true)
    const end = Date.now() - 60_000
    const times = new URLSearchParams({ from: new Date(end - 10_000).toISOString(), to: new Date(end).toISOString() })
    await page.goto(`${SITE}${JOB_PATH}?${times}`)
    await page.getByText('steps of 0.1 s').waitFor()
    expect(errors).toEqual([])
    await close()
  })

  it('shows who sends to whom, by ranks and by nodes, to the keys too', async () => {
    const { page, errors, close } = await tab(browser, JOB_PATH)
    const matrix = page.getByTestId('matrix')
    await matrix.waitFor()
    expect(await matrix.getAttribute('width')).toBe('12')
    // Each rank sends to the next, and the last one most.
    expect(await rows(page, 'largest').first().innerText()).toMatch(/rank 11 on n6\s+rank 0 on n1/)
    await matrix.focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('ArrowRight')
    await until('the cell is described', async () => /rank 0 on n1 to rank 1 on n1: \d/.test(await page.getByTestId('cell').innerText()))
    await page.getByRole('button', { name: 'folded by node' }).click()
    await until('a row for each node', async () => (await matrix.getAttribute('width')) === '6')
    await page.getByRole('button', { name: 'messages' }).click()
    await until('counted in messages', async () => (await page.getByTestId('largest').innerText()).includes('messages'))
    expect(Object.fromEntries(query(page))).toEqual({ fold: 'node', measure: 'messages' })
    expect(errors).toEqual([])
    await close()
  })

  it('shows operations, NVLinks and ports of the same seconds on one axis', async () => {
    const { page, errors, close } = await tab(browser, JOB_PATH)
    const charts = page.locator('[aria-label="Over time"] figure.chart')
    // Each comes when its own answer does.
    const all = /rank by rank.*in each operation.*NVLink.*Ports/s
    await until('all charts', async () => all.test((await charts.locator('figcaption').allInnerTexts()).join()))
    expect(await page.getByTestId('bounds').innerText()).toMatch(/aligned: MPI .* Read: .* each .* s.* Clocks: /)
    const ofOperations = charts.filter({ hasText: 'in each operation' })
    // Times stand under each other: all drawings begin and end at the same pixels.
    const boxes = await charts.locator('.u-over').evaluateAll((all) => all.map((e) => [e.getBoundingClientRect().left, e.getBoundingClientRect().right].map(Math.round).join()))
    expect(new Set(boxes).size).toBe(1)
    // A range is dragged over one of them, and all follow.
    await ofOperations.scrollIntoViewIfNeeded()
    const box = (await ofOperations.locator('.u-over').boundingBox()) as { x: number; y: number; width: number; height: number }
    await page.mouse.move(box.x + box.width * 0.3, box.y + 40)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width * 0.6, box.y + 50, { steps: 4 })
    await page.mouse.up()
    await until('the range is in the address', async () => query(page).get('from') !== null && query(page).get('to') !== null)
    await page.getByTestId('rank').fill('3')
    await page.getByTestId('rank').press('Enter')
    await until('one rank is shown', async () => (await ofOperations.innerText()).includes('Rank 3'))
    const before = new URL(page.url()).search
    await page.reload()
    await until('the same after a reload', async () => (await charts.count()) >= 4 && (await ofOperations.innerText()).includes('Rank 3'))
    expect(new URL(page.url()).search).toBe(before)
    await page.getByRole('button', { name: 'Whole job' }).click()
    await until('the whole job', async () => query(page).get('from') === null)
    expect(errors).toEqual([])
    await close()
  })

  it('leaves a rank alone that is being typed while series arrive', async () => {
    const { page, errors, close } = await tab(browser, JOB_PATH)
    const charts = page.locator('[aria-label="Over time"] figure.chart')
    await until('four charts', async () => (await charts.count()) >= 4)
    const ofOperations = charts.filter({ hasText: 'in each operation' })
    const field = page.getByTestId('rank')
    await field.pressSequentially('3')
    const seconds = () => page.locator('[aria-label="Over time"] .toolbar .dim').innerText()
    const before = await seconds()
    await until('series of a later time', async () => (await seconds()) !== before)
    expect(await field.inputValue()).toBe('3')
    await field.press('Enter')
    await until('one rank is shown', async () => (await ofOperations.innerText()).includes('Rank 3'))
    expect(errors).toEqual([])
    await close()
  })
})

describe('a node', () => {
  it('unfolds logical links into physical ones and writes that into the address', async () => {
    const { page, errors, close } = await tab(browser, '/nodes/n1')
    const links = rows(page, 'logical')
    await until('two pairs of GPUs, and each to the switch', async () => (await links.count()) === 6)
    const lines = () => page.locator('[data-testid=node] g.half.physical').count()
    expect(await lines()).toBe(0)
    await links.first().getByRole('button').press('Enter')
    await until('its two links', async () => (await links.count()) === 8 && (await lines()) === 2)
    expect(query(page).get('unfold')).toBe('0')
    await page.reload()
    await until('the same after a reload', async () => (await links.count()) === 8)
    await page.getByRole('button', { name: 'Unfold all links' }).click()
    await until('all links', async () => (await lines()) === 12)
    await until('rates flow', async () => /GB\/s/.test(await page.getByTestId('logical').innerText()))
    // Some 9 of 15.8 GB/s out of a PCIe link that is slower than its port.
    expect(await rows(page, 'adapters').first().innerText()).toMatch(/15\.8 GB\/s\s+slower than its ports\s+≥ [\d.]+ % out, ≥ [\d.]+ % in/)
    await page.getByTestId('adapters').getByRole('link', { name: 'leaf1' }).click()
    await until('its cable on the map', async () => query(page).get('link') !== null && new URL(page.url()).pathname === '/fabric')
    expect(errors).toEqual([])
    await close()
  })

  it('without an agent shows what the fabric knows, from the map on', async () => {
    const { page, errors, close } = await tab(browser, '/fabric?node=0x000000000000100f')
    const panel = page.getByTestId('panel')
    await panel.getByText('(no agent)').waitFor()
    await panel.getByRole('link', { name: 'n16', exact: true }).click()
    await page.getByTestId('agentless').waitFor()
    expect(await rows(page, 'adapters').first().innerText()).toMatch(/mlx5_0 1.*Active.*leaf4/s)
    await until('its rates by the fabric', async () => /[1-9][\d.]* GB\/s \(\d+ %\)/.test(await rows(page, 'adapters').first().innerText()))
    await page.locator('figure.chart').first().waitFor()
    expect(await page.getByTestId('node').count()).toBe(0)
    expect(errors).toEqual([])
    await close()
  })

  it('was otherwise at a past time', async () => {
    const { jobs } = (await (await fetch(`${SITE}/api/v1/jobs?state=ended`)).json()) as { jobs: { end_ms: number }[] }
    // Both jobs had ranks there a minute before one of them ended.
    const { page, close } = await tab(browser, `/nodes/n4?at=${new Date((jobs[0]?.end_ms ?? 0) - 60_000).toISOString()}`)
    await until('both jobs', async () => /name41[^]*name40|name40[^]*name41/.test(await page.locator('main').innerText()))
    await page.getByTestId('live').click()
    await until('one job', async () => !/name40/.test(await page.locator('main').innerText()))
    await close()
  })
})

describe('a token', () => {
  /** As a server with a token answers: here it is the browser's side that is tested. */
  const guarded = async (path: string) => {
    const context = await browser.newContext()
    const page = await context.newPage()
    await page.route('**/api/**', (route) =>
      route.request().headers().authorization === 'Bearer secret'
        ? route.continue()
        : route.fulfill({ status: 401, json: { error: { code: 'unauthorized', message: 'this server wants a token', remedy: 'send one' } } }),
    )
    await page.goto(`${SITE}${path}`)
    await page.getByText(/This server wants a token/).first().waitFor()
    await page.getByLabel('Token').first().fill('secret')
    await page.keyboard.press('Enter')
    return { page, close: () => context.close() }
  }

  it('is needed once', async () => {
    const { page, close } = await guarded('/jobs')
    await rows(page, 'jobs').nth(1).waitFor()
    await page.reload()
    await rows(page, 'jobs').nth(1).waitFor()
    await close()
  })

  it.each(['/', JOB_PATH, '/nodes/n1'])('is enough for all that %s shows', async (path) => {
    const { page, close } = await guarded(path)
    await until('no banner is left', async () => (await page.getByTestId('banner').count()) === 0)
    expect(await page.getByLabel('Token').count()).toBe(0)
    await close()
  })
})
