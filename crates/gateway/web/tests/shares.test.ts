// Whose bytes are on links: the panel of a link, the job's bytes over the map, the job's busiest links.
// PAGES_PICTURES=FOLDER writes what was looked at there.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { JobLinkShares, LinkShares } from '../src/api/client.ts'
import { SITE, launch, mapDrawn, nameless, query, tab, until } from './browser.ts'

const JOB = 'slurm:41.0@1000'
const JOB_PATH = `/jobs/${encodeURIComponent(JOB)}`
/** The cable of n3, which sends to five others. */
const LINK = '0x0000000000001002.1'

let browser: Browser
/** Upkeep makes the windows of ten minutes when the server starts. */
beforeAll(async () => {
  browser = await launch()
  await until('shares are made', async () => {
    const shares = (await (await fetch(`${SITE}/api/v1${JOB_PATH}/link-shares`)).json()) as JobLinkShares
    return shares.links.length > 4 && shares.links.every((link) => link.windows > 3)
  })
}, 120_000)
afterAll(() => browser.close())

async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.PAGES_PICTURES
  if (folder !== undefined) await page.screenshot({ path: `${folder}/shares-${name}.png` })
}

const panel = (page: Page) => page.getByTestId('contributors')

describe('the panel of a link', () => {
  it('names who is on it, by operation, with share, kind and bounds, and leads to the job', async () => {
    for (const [name, options] of [['wide', {}], ['wide-dark', { dark: true }], ['phone', { width: 390, height: 844 }], ['phone-dark', { width: 390, height: 844, dark: true }]] as const) {
      const { page, errors, close } = await tab(browser, `/fabric?link=${LINK}`, options)
      await panel(page).locator('table').first().waitFor()
      const table = panel(page).getByRole('table', { name: /n3 .*sends/ })
      const row = table.getByRole('row', { name: /alltoall/ })
      expect(await row.getByRole('link').innerText()).toBe('job 41 (ada)')
      expect(await row.innerText()).toMatch(/alltoall[^]*B\/s[^]*%[^]*modelled/)
      expect(await table.getByRole('row', { name: /isend/ }).innerText()).toMatch(/isend[^]*B\/s[^]*%[^]*measured/)
      // All parts are one whole, with what nobody reported.
      const shares = (await (await fetch(`${SITE}/api/v1/fabric/0xfe80000000000000/links/${LINK}/shares`)).json()) as LinkShares
      for (const direction of [shares.ab, shares.ba]) {
        const sum = direction.contributors.reduce((all, c) => all + c.bytes, 0)
        expect(Math.abs(sum - (direction.counted_bytes ?? 0))).toBeLessThan(1e-3 * sum + 1)
      }
      for (const text of await table.locator('td.n').allInnerTexts()) expect(Number(/(\d+(\.\d+)?) %/.exec(text)?.[1] ?? 0)).toBeLessThanOrEqual(100)
      await panel(page).locator('figure.chart canvas').first().waitFor()
      expect(await panel(page).getByRole('img', { name: /by contributor: counted at most .* of 25(\.0)? GB\/s/ }).count()).toBeGreaterThan(0)
      expect(await nameless(page)).toEqual([])
      await panel(page).scrollIntoViewIfNeeded()
      await picture(page, `link-${name}`)
      if (name === 'wide') {
        await panel(page).getByRole('combobox').selectOption('3600')
        await until('the range is in the address', async () => query(page).get('span') === '3600')
        await row.getByRole('link').focus()
        await page.keyboard.press('Enter')
        await page.getByRole('heading', { level: 1, name: /name41/ }).waitFor()
      }
      expect(errors).toEqual([])
      await close()
    }
  })

  it('says of a direction without traffic that it has none', async () => {
    // The first host of the first cable sends nothing.
    const { page, close } = await tab(browser, '/fabric?link=0x0000000000001000.1')
    await panel(page).getByText(/n1 mlx5_0 sends: no traffic in windows from/).waitFor()
    await panel(page).getByRole('table', { name: /leaf1 sends/ }).waitFor()
    await close()
  })
})

describe('a job', () => {
  it('lists its busiest links with its part, the others and the kind', async () => {
    for (const [name, options] of [['wide', {}], ['phone-dark', { width: 390, height: 844, dark: true }]] as const) {
      const { page, errors, close } = await tab(browser, JOB_PATH, options)
      const busiest = page.getByTestId('busiest')
      await busiest.locator('tbody tr').first().waitFor()
      const row = busiest.locator('tbody tr').first()
      expect(await row.innerText()).toMatch(/→[^]*%[^]*(modelled|measured)/)
      await busiest.scrollIntoViewIfNeeded()
      await picture(page, `job-${name}`)
      await row.getByRole('link').first().click()
      await panel(page).waitFor()
      expect(query(page).get('job')).toBe(JOB)
      expect(errors).toEqual([])
      await close()
    }
  })

  it('colours the map by its own bytes, or by all of them', async () => {
    const { page, errors, close } = await tab(browser, `/fabric?job=${encodeURIComponent(JOB)}`)
    await page.getByText(/Lit and coloured: its own bytes on \d+ links/).waitFor()
    await page.getByText('Each half by what the job sends at its end:').waitFor()
    await mapDrawn(page)
    await picture(page, 'map')
    await page.getByRole('button', { name: 'Show table' }).click()
    await page.getByText(/the highest share of their speed by the job first/).waitFor()
    // No job of a host without ranks has bytes on its cable.
    await page.getByRole('searchbox', { name: 'Filter' }).fill('n16 ')
    await until('nothing of the job', async () => /n16[^]*\b0 %\s+0 %/.test(await page.getByTestId('links').innerText()))
    await page.getByRole('button', { name: 'Show map' }).click()
    await page.getByRole('button', { name: 'Only its bytes' }).click()
    await page.getByText('Each half by what its end sends:').waitFor()
    expect(query(page).get('bytes')).toBe('all')
    expect(errors).toEqual([])
    await close()
  })
})

describe('several subnets', () => {
  it('are under each other, with one time and one job over them', async () => {
    for (const [name, options] of [['rails', {}], ['rails-phone-dark', { width: 390, height: 844, dark: true }]] as const) {
      const { page, errors, close } = await tab(browser, '/jobs', options)
      // A second rail that is cabled as the first one.
      const [first, second] = ['0xfe80000000000000', '0xfe80000000000001']
      await page.route('**/api/v1/subnets', async (route) => {
        const { subnets } = (await (await route.fetch()).json()) as { subnets: { subnet: string }[] }
        await route.fulfill({ json: { subnets: [...subnets, { ...subnets[0], subnet: second }] } })
      })
      await page.route(`**/fabric/${second}/**`, async (route) => {
        const response = await route.fetch({ url: route.request().url().replace(second, first) })
        await route.fulfill({ json: JSON.parse((await response.text()).replaceAll(first, second)) })
      })
      await page.getByRole('link', { name: 'Fabric' }).click()
      await until('two maps', async () => (await page.getByTestId('map').count()) === 2)
      await until('both are drawn', async () => (await page.getByTestId('map').evaluateAll((all) => all.filter((map) => Number((map as HTMLElement).dataset.drawn) > 0).length)) === 2)
      // Nobody had to choose that, and one can be chosen.
      expect(query(page).get('subnet')).toBeNull()
      // A link is in one of them; the other one does not report it as missing.
      await page.getByRole('button', { name: 'Show table' }).click()
      await page.getByTestId('rail').nth(1).getByRole('button', { name: /leaf2/ }).first().waitFor()
      await page.getByRole('button', { name: 'Show map' }).click()
      await page.waitForTimeout(500)
      await picture(page, name)
      expect(errors).toEqual([])
      await close()
    }
  })
})

describe('the metrics of the server', () => {
  it('have the contributors of the windows that it made', async () => {
    const lines = async () => (await (await fetch(`${SITE}/metrics`)).text()).split('\n').filter((line) => /^throughline_link_\w*transmit_bytes_total/.test(line))
    const all = await until('a window is made', async () => {
      const found = await lines()
      return found.some((line) => line.startsWith('throughline_link_job')) && found
    })
    expect(all.some((line) => /^throughline_link_job_transmit_bytes_total\{guid="0x[0-9a-f]{16}",port="1",job="41",operation="alltoall",job_key="slurm:41.0@1000",user="ada",known="modelled"\} [1-9]/.test(line))).toBe(true)
    expect(all.some((line) => /^throughline_link_unmonitored_transmit_bytes_total\{guid="[^"]+",port="\d+",contributor="host",name="n16",known="[a-z]+"\} [1-9]/.test(line))).toBe(true)
    // What is divided by is at least as much.
    const sums = new Map<string, number>()
    for (const line of all) {
      const [, metric, port, value] = /^(\w+)\{(guid="[^"]+",port="\d+")[^}]*\} (\d+)/.exec(line) ?? []
      const key = `${metric === 'throughline_link_transmit_bytes_total' ? 'all' : 'parts'} ${port}`
      sums.set(key, (sums.get(key) ?? 0) + Number(value))
    }
    for (const [key, parts] of sums) if (key.startsWith('parts')) expect(sums.get(key.replace('parts', 'all')) ?? 0).toBeGreaterThanOrEqual(parts * 0.999)
  })
})
