// The map: what it draws, choosing by hand and keys, any past time, a job over it, and the address that has all of it.
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Topology } from '../src/api/client.ts'
import { cameraOf, mapping } from '../src/fabric/camera.ts'
import { layout } from '../src/fabric/layout.ts'
import { SITE, colours, drawn, launch, mapDrawn, query, tab, until } from './browser.ts'

const JOB = 'slurm:41.0@1000'
const LEAF2 = '0x0000000000000101'

let browser: Browser
let topology: Topology
beforeAll(async () => {
  browser = await launch()
  topology = (await (await fetch(`${SITE}/api/v1/fabric/0xfe80000000000000/topology`)).json()) as Topology
})
afterAll(() => browser.close())

const panel = (page: Page) => page.getByTestId('panel')

/** Where a node is drawn, in pixels of the page. */
async function spot(page: Page, name: string): Promise<{ x: number; y: number }> {
  const box = (await page.getByTestId('map').boundingBox()) as { x: number; y: number; width: number; height: number }
  const placed = layout(topology, () => false)
  const map = mapping(cameraOf(query(page).get('view')), box)
  const i = topology.nodes.name.indexOf(name)
  return { x: box.x + (placed.x[i] as number) * map.scaleX + map.shiftX, y: box.y + (placed.y[i] as number) * map.scaleY + map.shiftY }
}

/** A quarter of an hour ago nothing was there; two minutes ago all was, and it does not change any more. */
const PAST = () => new Date(Math.floor(Date.now() / 60_000) * 60_000 - 120_000).toISOString()

/** Waits until the map shows links in at least three colours of the legend besides those of idle ones: loads come after the map. */
async function coloured(page: Page): Promise<void> {
  const steps = (await page.locator('.legend rect').evaluateAll((all) => all.map((rect) => rect.getAttribute('fill')))) as string[]
  await until('loads are coloured', async () => {
    const seen = await colours(page, page.getByTestId('map'))
    return steps.slice(2).filter((colour) => near(seen, colour) > 20).length >= 3
  })
}

describe('the map', () => {
  it('is drawn in the colours of what links carry', async () => {
    const { page, errors, close } = await tab(browser, '/fabric?window=60')
    await mapDrawn(page)
    await page.getByText(/read 48 of 48 ports/).waitFor()
    await coloured(page)
    expect(errors).toEqual([])
    await close()
  })

  it('has another palette that shows as much', async () => {
    const { page, close } = await tab(browser, '/fabric?window=60&palette=blind')
    await mapDrawn(page)
    await coloured(page)
    await close()
  })

  it('a click on a switch opens its table, a click on a link its own, Escape closes it', async () => {
    const { page, errors, close } = await tab(browser, '/fabric')
    await mapDrawn(page)
    const at = await spot(page, 'leaf2')
    await page.mouse.move(at.x, at.y)
    await page.locator('.tip').getByText('leaf2', { exact: true }).waitFor()
    await page.mouse.click(at.x, at.y)
    await panel(page).getByRole('heading', { name: 'leaf2', exact: true }).waitFor()
    expect(query(page).get('node')).toBe(LEAF2)
    await mapDrawn(page)
    const [leaf, spine] = [await spot(page, 'leaf2'), await spot(page, 'spine1')]
    await page.mouse.click(leaf.x * 0.55 + spine.x * 0.45, leaf.y * 0.55 + spine.y * 0.45)
    await panel(page).getByRole('heading', { name: /leaf2\[5\] – spine1\[2\]|spine1\[2\] – leaf2\[5\]/ }).waitFor()
    expect(query(page).get('link')).not.toBeNull()
    for (const text of [/25(\.0)? GB\/s each way/, /transmit_data_bytes/, /leaf2 sends \d+ destinations? this way/, /name41/]) {
      await until(`the panel shows ${text}`, async () => text.test(await panel(page).innerText()))
    }
    await page.keyboard.press('Escape')
    await panel(page).waitFor({ state: 'detached' })
    expect(query(page).get('link')).toBeNull()
    expect(errors).toEqual([])
    await close()
  })

  it('opens the hosts of a leaf by a double click and folds them again', async () => {
    const { page, close } = await tab(browser, '/fabric')
    await mapDrawn(page)
    const at = await spot(page, 'leaf2')
    const folded = await page.getByTestId('map').screenshot()
    // Slowly, as a hand does it: the panel is there at the second click, and the map narrower.
    await page.mouse.click(at.x, at.y)
    await panel(page).waitFor()
    await page.mouse.click(at.x, at.y, { clickCount: 2 })
    await until('the leaf is open', async () => query(page).get('open') === LEAF2)
    await mapDrawn(page)
    expect((await page.getByTestId('map').screenshot()).equals(folded)).toBe(false)
    await panel(page).getByRole('button', { name: /Fold its 4 hosts/ }).click()
    await until('the leaf is folded', async () => query(page).get('open') === null)
    await page.getByRole('button', { name: 'Open all hosts' }).click()
    await until('all are open', async () => query(page).get('open') === 'all')
    await close()
  })

  it('is moved and searched by keys', async () => {
    const { page, close } = await tab(browser, '/fabric')
    await mapDrawn(page)
    await page.getByTestId('map').focus()
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('+')
    const view = await until('the view is in the address', async () => query(page).get('view') ?? undefined)
    expect(cameraOf(view).zoom).toBeCloseTo(1.4)
    expect(cameraOf(view).x).toBeGreaterThan(0.5)
    await page.keyboard.press('0')
    await until('all is shown again', async () => query(page).get('view') === null)
    await page.keyboard.press('Enter')
    await panel(page).waitFor()
    await page.keyboard.press('Escape')
    await panel(page).waitFor({ state: 'detached' })
    // The focus is back on the map.
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('data-testid'))
    await until('the map has the focus', async () => (await focused()) === 'map')
    await close()
  })

  it('a found leaf comes into sight, and its spines with it', async () => {
    const far = '0.9000,0.900,40.0'
    const { page, close } = await tab(browser, `/fabric?view=${far}`)
    await mapDrawn(page)
    const field = page.getByRole('combobox', { name: /search/i })
    await field.fill('leaf2')
    await page.getByRole('option', { name: /leaf2/ }).click()
    await until('the view moved there', async () => query(page).get('find') === null && query(page).get('view') !== far)
    await panel(page).waitFor()
    const box = (await page.getByTestId('map').boundingBox()) as { x: number; y: number; width: number; height: number }
    for (const name of ['leaf2', 'spine1', 'spine2']) {
      const at = await spot(page, name)
      expect([at.x > box.x, at.x < box.x + box.width, at.y > box.y, at.y < box.y + box.height], name).toEqual([true, true, true, true])
    }
    await close()
  })

  it('is moved by hand and wheel without a new surface to draw on, and is sharp at rest', async () => {
    const { page, errors, close } = await tab(browser, '/fabric?at=' + PAST())
    await mapDrawn(page)
    const whole = await page.getByTestId('map').screenshot()
    await page.getByTestId('map').evaluate((canvas) => {
      const made = { count: 0 }
      new MutationObserver((all) => (made.count += all.length)).observe(canvas, { attributeFilter: ['width', 'height'] })
      Object.assign(window, { made })
    })
    const box = (await page.getByTestId('map').boundingBox()) as { x: number; y: number; width: number; height: number }
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
    await page.mouse.move(x, y)
    const before = await drawn(page)
    for (let i = 0; i < 20; i += 1) {
      await page.mouse.wheel(0, i < 10 ? -60 : 60)
      await page.waitForTimeout(20)
    }
    await page.mouse.down()
    for (let i = 1; i <= 20; i += 1) await page.mouse.move(x + 10 * Math.min(i, 20 - i), y)
    await page.mouse.up()
    await page.mouse.move(box.x + box.width + 5, box.y - 5)
    await mapDrawn(page)
    expect(await drawn(page)).toBeGreaterThan(before + 1)
    expect(await page.evaluate(() => (window as unknown as { made: { count: number } }).made.count)).toBe(0)
    await page.getByTestId('map').focus()
    await page.keyboard.press('0')
    await until('all is shown again', async () => query(page).get('view') === null)
    await mapDrawn(page)
    await page.getByTestId('map').blur()
    expect((await page.getByTestId('map').screenshot()).equals(whole)).toBe(true)
    expect(errors).toEqual([])
    await close()
  })
})

describe('past times', () => {
  it('the slider goes back and Live returns', async () => {
    const { page, errors, close } = await tab(browser, '/fabric')
    await mapDrawn(page)
    const slider = page.getByTestId('slider')
    await until('the slider knows the range', () => slider.isEnabled())
    await slider.focus()
    await page.keyboard.press('Home')
    const start = await until('the time is in the address', async () => query(page).get('at') ?? undefined)
    expect(Date.parse(start)).toBeLessThan(Date.now() - 550_000)
    expect(await page.getByTestId('time').innerText()).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    await page.keyboard.press('PageUp')
    await until('it moved on', async () => Date.parse(query(page).get('at') ?? '') > Date.parse(start))
    expect(await slider.getAttribute('aria-valuetext')).toMatch(/^\d{4}-/)
    await page.getByTestId('live').click()
    await until('live again', async () => query(page).get('at') === null)
    expect(await page.getByTestId('time').innerText()).toMatch(/^live/)
    expect(errors).toEqual([])
    await close()
  })

  it('an address gives the same view again, to the point', async () => {
    const path = `/fabric?at=${PAST()}&colour=waiting&job=${encodeURIComponent(JOB)}&node=${LEAF2}&open=${LEAF2}&view=0.4000,0.550,1.30&window=60`
    const pictures: Buffer[] = []
    for (let i = 0; i < 2; i += 1) {
      const { page, errors, close } = await tab(browser, path)
      await page.getByTestId('overlaid').waitFor()
      await panel(page).waitFor()
      await until('values are there', async () => /%/.test(await panel(page).innerText()))
      await mapDrawn(page)
      expect(Object.fromEntries(query(page))).toEqual(Object.fromEntries(new URL(path, SITE).searchParams))
      pictures.push(await page.getByTestId('map').screenshot())
      if (i === 0) {
        await page.reload()
        await page.getByTestId('overlaid').waitFor()
        await until('values are there', async () => /%/.test(await panel(page).innerText()))
        await mapDrawn(page)
        pictures.push(await page.getByTestId('map').screenshot())
      }
      expect(errors).toEqual([])
      await close()
    }
    expect(pictures[1]?.equals(pictures[0] as Buffer)).toBe(true)
    expect(pictures[2]?.equals(pictures[0] as Buffer)).toBe(true)
  })
})

describe('routing', () => {
  it('stands with a switch, with its links and with what is laid over the map, as far as it is reported', async () => {
    const { page, errors, close } = await tab(browser, '/fabric?node=0x0000000000000100')
    await panel(page).getByText('Routing').waitFor()
    expect(await panel(page).locator('dt:has-text("Routing") + dd').innerText()).toBe('static')
    await page.goto(`${SITE}/fabric?node=${LEAF2}&job=${encodeURIComponent(JOB)}`)
    await until('another switch', async () => (await panel(page).locator('dt:has-text("Routing") + dd').innerText()) === 'not reported')
    await page.getByTestId('overlaid').getByText("Routing not reported: these are the ways of the switches' tables.").waitFor()
    await page.goto(`${SITE}/fabric?link=0x0000000000001000.1`)
    expect(await panel(page).locator('dt:has-text("Routing of leaf1") + dd').innerText()).toBe('static')
    await page.getByTestId('contributors').getByText('Routing of the fabric: not reported.').waitFor()
    expect(errors).toEqual([])
    await close()
  })
})

describe('over the map', () => {
  it('a job lights its adapters and the links between them', async () => {
    const { page, errors, close } = await tab(browser, `/fabric?at=${PAST()}`)
    await mapDrawn(page)
    const plain = await page.getByTestId('map').screenshot()
    await until('jobs are offered', async () => (await page.getByTestId('job').locator('option').count()) > 2)
    await page.getByTestId('job').selectOption(JOB)
    // Six hosts on two leaves: their cables, and of each leaf both ways up.
    await page.getByTestId('overlaid').getByText(`${JOB}: 6 adapters, 10 links that it could use`).waitFor()
    // Beside the map: over it, it would hide names.
    const [note, map] = [await page.getByTestId('overlaid').boundingBox(), await page.getByTestId('map').boundingBox()]
    expect((note?.y ?? 0) + (note?.height ?? 0)).toBeLessThanOrEqual(map?.y ?? 0)
    await mapDrawn(page)
    expect((await page.getByTestId('map').screenshot()).equals(plain)).toBe(false)
    await page.getByTestId('job').selectOption('')
    await until('it is gone from the address', async () => query(page).get('job') === null)
    await mapDrawn(page)
    expect((await page.getByTestId('map').screenshot()).equals(plain)).toBe(true)
    expect(errors).toEqual([])
    await close()
  })

  it('a multicast group lights what switches forward it to', async () => {
    const { page, errors, close } = await tab(browser, '/fabric')
    await mapDrawn(page)
    await until('groups are offered', async () => (await page.getByTestId('group').count()) === 1)
    await page.getByTestId('group').selectOption('0xc000')
    // One spine, all leaves, and the first host of each.
    await page.getByTestId('overlaid').getByText('Multicast 0xc000: 4 adapters, 8 links that carry it are lit.').waitFor()
    const address = page.url()
    await page.reload()
    await page.getByTestId('overlaid').getByText('Multicast 0xc000').waitFor()
    expect(page.url()).toBe(address)
    // A job takes its place.
    await until('jobs are offered', async () => (await page.getByTestId('job').locator('option').count()) > 2)
    await page.getByTestId('job').selectOption(JOB)
    await page.getByTestId('overlaid').getByText(JOB).waitFor()
    expect(query(page).get('group')).toBeNull()
    expect(errors).toEqual([])
    await close()
  })
})

/** Points whose colour is nearly the one named. */
function near(seen: Map<string, number>, colour: string): number {
  const split = (text: string) => [0, 2, 4].map((i) => Number.parseInt(text.slice(i, i + 2), 16))
  const wanted = split(colour.replace('#', ''))
  let sum = 0
  for (const [name, count] of seen) {
    if (split(name).every((n, i) => Math.abs(n - (wanted[i] as number)) < 24)) sum += count
  }
  return sum
}
