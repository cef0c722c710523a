// Phones: at 390 pixels nothing of a page is cut off, in both themes; only tables and drawings scroll, by themselves.
// PAGES_PICTURES=FOLDER writes what was looked at there.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launch, mapDrawn, tab } from './browser.ts'

const WIDTH = 390
const HEIGHT = 844
const JOB_PATH = `/jobs/${encodeURIComponent('slurm:41.0@1000')}`
const LINK = '0x0000000000000100.1'

let browser: Browser
beforeAll(async () => {
  browser = await launch()
})
afterAll(() => browser.close())

/** Pages, and what is there when all is drawn. */
const PAGES: [path: string, there: string][] = [
  ['/fabric', '[data-testid=map]'],
  [`/fabric?link=${LINK}`, '[data-testid=panel] figure.chart'],
  ['/fabric?node=0x0000000000000100', '[data-testid=panel] tbody tr'],
  ['/fabric?job=slurm%3A41.0%401000', '[data-testid=overlaid]'],
  ['/fabric?table=1', '[data-testid=links] tbody tr'],
  ['/jobs', '[data-testid=jobs] tbody tr'],
  ['/jobs?state=ended', '[data-testid=jobs] tbody tr'],
  [JOB_PATH, '[aria-label="Over time"] figure.chart >> nth=2'],
  ['/nodes', '[data-testid=nodes] tbody tr'],
  ['/nodes/n1', 'figure.chart'],
  ['/nodes/n16', '[data-testid=adapters] tbody tr'],
  ['/multicast', '[data-testid=groups] tbody tr'],
  ['/multicast/0xc000', '[data-testid=tree] tbody tr'],
  ['/nodes/nobody', '[data-testid=banner]'],
  ['/nowhere', 'h1'],
]

/** What stands out of the window and can't be scrolled to within a box of its own, and boxes that cut their content. */
const cutOff = (page: Page) =>
  page.evaluate(() => {
    /** Boxes that scroll by themselves, or hide what they have on purpose: names of the map, texts for screen readers. */
    const OWN = '.sideways, .node-picture, .scroll, .panel, .map, .hidden, .skip, .u-wrap, svg'
    const name = (e: Element) => `${e.tagName.toLowerCase()}.${e.getAttribute('class') ?? ''} ${(e.textContent ?? '').trim().slice(0, 40)}`
    const found: string[] = []
    for (const box of [document.documentElement, document.querySelector('main') as Element, ...document.querySelectorAll('.panel')]) {
      if (box.scrollWidth > box.clientWidth) found.push(`${name(box)}: ${box.scrollWidth} in ${box.clientWidth}`)
    }
    for (const element of document.querySelectorAll('body *')) {
      const own = element.closest(OWN)
      if (own !== null && own !== element) continue
      const { left, right, width } = element.getBoundingClientRect()
      if (width > 0 && (left < -1 || right > innerWidth + 1) && !element.matches(OWN)) found.push(`${name(element)}: ${Math.round(left)} to ${Math.round(right)}`)
    }
    return found
  })

describe('at 390 pixels', () => {
  it.each(PAGES)('%s is whole', async (path, there) => {
    for (const dark of [false, true]) {
      const { page, close } = await tab(browser, path, { width: WIDTH, height: HEIGHT, dark })
      await page.locator(there).first().waitFor()
      if (path === '/fabric') await mapDrawn(page)
      const folder = process.env.PAGES_PICTURES
      if (folder !== undefined) await page.screenshot({ path: `${folder}/${path.replaceAll(/\W+/g, '-')}${dark ? '-dark' : ''}.png` })
      expect(await cutOff(page)).toEqual([])
      // A table's rows have their names wherever it was scrolled to.
      await page.evaluate(() => document.querySelectorAll('.sideways').forEach((box) => box.scrollTo({ left: box.scrollWidth })))
      const names = page.locator('.sideways tbody th').first()
      if ((await names.count()) > 0) expect((await names.boundingBox())?.x).toBeGreaterThanOrEqual(0)
      await close()
    }
  })

  it('the panel of the map can be read and closed', async () => {
    const { page, close } = await tab(browser, `/fabric?link=${LINK}`, { width: WIDTH, height: HEIGHT })
    const panel = page.getByTestId('panel')
    await panel.locator('figure.chart').first().waitFor()
    const box = (await panel.boundingBox()) as { width: number; height: number }
    expect(box.width).toBeGreaterThan(300)
    expect(box.height).toBeGreaterThan(200)
    await panel.getByRole('button', { name: 'Close' }).click()
    await panel.waitFor({ state: 'detached' })
    await close()
  })
})
