// A job's broadcasts by rank, and the PCIe links of its hosts. PAGES_PICTURES=FOLDER writes what was looked at there.
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launch, tab } from './browser.ts'

const path = (number: number) => `/jobs/${encodeURIComponent(`slurm:${number}.0@1000`)}`

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

describe('broadcasts of a job', () => {
  it('have bytes a second by rank, the slowest first, and the PCIe links of its hosts', async () => {
    for (const [name, options] of [['wide', {}], ['dark', { dark: true }], ['phone', { width: 390, height: 844 }]] as const) {
      const { page, errors, close } = await tab(browser, path(42), options)
      const tables = page.getByTestId('broadcast').getByRole('table')
      await tables.nth(1).waitFor()
      const texts = await tables.first().locator('tbody tr').allInnerTexts()
      // 20 MiB a second in 40 ms of each: of rank 3, on the second host. The root receives nothing, and is last.
      expect(texts[0]).toMatch(/^3\s+n10\s+\S.*\s0 B\s.*\s52\d MB\/s\s+modelled$/s)
      expect(texts.map((text) => text.split(/\s/)[0])).toEqual(['3', '2', '1', '0'])
      expect(texts[3]).toMatch(/^0\s+n9\s.*\s0 B\/s\s+modelled$/s)
      const hosts = await tables.nth(1).locator('tbody tr').allInnerTexts()
      expect(hosts.length).toBe(2)
      for (const host of hosts) expect(host).toMatch(/^n(9|10)\s+mlx5_0\s.*\s25 GB\/s\s+15\.8 GB\/s\s+slower than its ports/s)
      const folder = process.env.PAGES_PICTURES
      if (folder !== undefined) await page.getByTestId('broadcast').screenshot({ path: `${folder}/broadcast-${name}.png` })
      expect(errors).toEqual([])
      await close()
    }
  })

  it('are not shown of a job that has none', async () => {
    const { page, errors, close } = await tab(browser, path(41))
    await page.locator('[data-testid=operations] tbody tr').first().waitFor()
    expect(await page.getByTestId('broadcast').count()).toBe(0)
    expect(errors).toEqual([])
    await close()
  })
})
