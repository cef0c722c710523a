// Server or database away, or slow: the last picture stays, marked stale with the reason, and recovers by itself.
import type { Browser, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { control, launch, mapDrawn, tab, until } from './browser.ts'

const JOB_PATH = `/jobs/${encodeURIComponent('slurm:41.0@1000')}`

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

/** What brings back what a test took away, whether it passed or not. */
let mend: string | undefined
afterEach(async () => {
  if (mend !== undefined) await control(mend)
  mend = undefined
})
async function take(what: string, back: string): Promise<void> {
  mend = back
  await control(what)
}
async function bring(): Promise<void> {
  const back = mend
  mend = undefined
  if (back !== undefined) await control(back)
}

const banner = (page: Page) => page.getByTestId('banner').first()

/** Pages that show the present, with what must stay on them. */
const SHOWN: [path: string, stays: string, stale: RegExp][] = [
  ['/fabric', '[data-testid=map]', /Stale: fabric as of \d\d:\d\d:\d\d\./],
  ['/jobs', '[data-testid=jobs] tbody tr >> nth=1', /Stale: jobs as of \d\d:\d\d:\d\d\./],
  [JOB_PATH, '[data-testid=operations] tbody tr >> nth=1', /Stale: job as of \d\d:\d\d:\d\d\./],
  ['/nodes/n1', '[data-testid=logical] tbody tr >> nth=5', /Stale: node as of \d\d:\d\d:\d\d\./],
]

async function opened() {
  const tabs = await Promise.all(SHOWN.map(([path]) => tab(browser, path)))
  for (const [i, { page }] of tabs.entries()) await page.locator(SHOWN[i]?.[1] as string).waitFor()
  await mapDrawn((tabs[0] as (typeof tabs)[0]).page)
  return tabs
}

async function goesStaleAndRecovers(stop: string, start: string, why: RegExp) {
  const tabs = await opened()
  await take(stop, start)
  for (const [i, { page }] of tabs.entries()) {
    const [, stays, stale] = SHOWN[i] as (typeof SHOWN)[number]
    await until(`${page.url()} is stale`, async () => (await banner(page).count()) > 0 && stale.test(await banner(page).innerText()))
    expect(await banner(page).innerText()).toMatch(why)
    expect(await page.locator(stays).isVisible()).toBe(true)
    expect(await page.locator('.old').count()).toBeGreaterThan(0)
    // Screen readers get it, too.
    expect(await banner(page).evaluate((e) => e.closest('[role=status]') !== null)).toBe(true)
  }
  await bring()
  for (const { page, close } of tabs) {
    await until(`${page.url()} recovers`, async () => (await page.getByTestId('banner').count()) === 0)
    expect(await page.locator('.old').count()).toBe(0)
    expect(await page.getByTestId('broken').count()).toBe(0)
    await close()
  }
}

it('without the server the last picture stays, marked stale', () => goesStaleAndRecovers('/server/stop', '/server/start', /The server does not answer\./))

it('without the database too, with the reason', () => goesStaleAndRecovers('/database/stop', '/database/start', /[Dd]atabase/))

it('a page that opens while the database is away reports it, and fills by itself', async () => {
  await take('/database/stop', '/database/start')
  const { page, close } = await tab(browser, '/jobs')
  await until('the banner is there', async () => (await banner(page).count()) > 0 && /No jobs\./.test(await banner(page).innerText()))
  await bring()
  await page.locator('[data-testid=jobs] tbody tr').nth(1).waitFor()
  await close()
})

it('a slow server is reported, and the picture stays', async () => {
  const { page, close } = await tab(browser, '/jobs')
  await page.locator('[data-testid=jobs] tbody tr').nth(1).waitFor()
  await take('/server/pause', '/server/continue')
  await until('the banner is there', async () => (await banner(page).count()) > 0 && /The server is slow/.test(await banner(page).innerText()))
  expect(await page.locator('[data-testid=jobs] tbody tr').count()).toBe(2)
  await bring()
  await until('it goes on', async () => (await page.getByTestId('banner').count()) === 0)
  await close()
})
