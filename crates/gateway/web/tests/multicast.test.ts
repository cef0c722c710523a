// Multicast groups: the list, and one group with members, tree, and what is lost on it.
// PAGES_PICTURES=FOLDER writes what was looked at there.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launch, mapDrawn, query, tab, until } from './browser.ts'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

const row = (page: Page, table: string, name: RegExp) => page.getByTestId(table).getByRole('row', { name })

async function picture(page: Page, name: string): Promise<void> {
  const folder = process.env.PAGES_PICTURES
  if (folder !== undefined) await page.screenshot({ path: `${folder}/multicast-${name}.png`, fullPage: true })
}

describe('multicast', () => {
  it('the list names groups, counts members and packets, and leads to one', async () => {
    const { page, errors, close } = await tab(browser, '/multicast')
    const broadcast = row(page, 'groups', /0xc000/)
    await broadcast.waitFor()
    // 1,000 a second, in some rounding.
    expect(await broadcast.innerText()).toMatch(/IPoIB broadcast\s+2048\s+5\s+4\s+8\s+(1|1\.0\d|99\d|1\.00) ?k?\/s\s+measured/)
    // Members are not reported, and nobody forwards it: absent is not zero.
    expect(await row(page, 'groups', /0xc001/).innerText()).toMatch(/IPoIB 224\.0\.0\.251 mDNS\s+2048\s+–\s+0\s+0\s+–\s+–/)
    await picture(page, 'list')
    await page.getByLabel('Filter').fill('mdns')
    await until('the filter holds', async () => (await page.locator('[data-testid=groups] tbody tr').count()) === 1)
    await page.getByRole('link', { name: '0xc001' }).click()
    await page.getByText('Who the members are is not known').waitFor()
    await page.getByText('No switch forwards it').waitFor()
    expect(errors).toEqual([])
    await close()
  })

  it('one group has its members, its tree and its losses', async () => {
    for (const [name, options] of [['wide', {}], ['dark', { dark: true }], ['phone', { width: 390, height: 844 }]] as const) {
      const { page, errors, close } = await tab(browser, '/multicast/0xc000', options)
      await row(page, 'members', /n1 mlx5_0/).first().waitFor()
      expect(await row(page, 'members', /^n5 mlx5_0/).innerText()).toMatch(/full\s+yes/)
      expect(await row(page, 'members', /^n16 mlx5_0/).innerText()).toMatch(/full\s+no/)
      await page.getByText('The tree does not reach 1 member that should receive.').waitFor()
      // From the spine down; a third is lost on the cable to the third leaf, and nothing elsewhere.
      expect(await row(page, 'tree', /^spine1\[3\] → leaf3\[5\]/).innerText()).toMatch(/≤ [^\n]*B\/s bound[^]*≥ [\d.]+ k of [\d.]+ k\s+0\s+this group/)
      expect(await row(page, 'tree', /^leaf3\[1\] → n9 mlx5_0\[1\]/).innerText()).toMatch(/\s0\s+0\s+this group/)
      await page.getByText('No packet is missing between what came in and what went out.').waitFor()
      await picture(page, name)
      expect(errors).toEqual([])
      await close()
    }
  })

  it('and its map, which leads back', async () => {
    const { page, errors, close } = await tab(browser, '/multicast/0xc000')
    await page.getByRole('link', { name: 'Show on the fabric map' }).click()
    await mapDrawn(page)
    expect(query(page).get('group')).toBe('0xc000')
    await page.getByRole('link', { name: 'open group' }).click()
    await page.getByRole('heading', { name: /Multicast 0xc000 IPoIB broadcast/ }).waitFor()
    expect(errors).toEqual([])
    await close()
  })
})
