// Takes the pictures of docs/TOUR.md, or all pages in two widths and themes, or README's of an emulated fabric; see make.sh.
import fs from 'node:fs'
import path from 'node:path'
import { writePng } from './png.mjs'

const [site, executablePath, playwright, out = '', emulated = ''] = process.argv.slice(2)
const { chromium } = await import(path.resolve(playwright))
const here = path.dirname(new URL(import.meta.url).pathname)
const ask = async (url) => (await fetch(`${site}/api/v1${url}`)).json()

const { subnets } = await ask('/subnets')
const fabric = `/fabric/${subnets[0].subnet}`
const topology = await ask(`${fabric}/topology`)
const load = await ask(`${fabric}/load`)
const { jobs } = await ask('/jobs?state=live')
const job = encodeURIComponent(jobs[0].job_key)
const { nodes } = await ask('/nodes')
const host = nodes[0].host
// The busiest link between switches, and the first leaf.
const isSwitch = (i) => topology.kinds[topology.nodes.kind[i]] === 'switch'
const used = load.utilisation.ab.map((ab, i) => Math.max(ab ?? 0, load.utilisation.ba[i] ?? 0))
const order = used.map((_, i) => i).filter((i) => isSwitch(topology.links.a[i]) && isSwitch(topology.links.b[i])).sort((i, j) => used[j] - used[i])
const link = `${topology.nodes.guid[topology.links.a[order[0]]]}.${topology.links.port_a[order[0]]}`
// On an emulated fabric: the link between switches that most share.
const sharers = async (i) => {
  const end = `${topology.nodes.guid[topology.links.a[i]]}.${topology.links.port_a[i]}`
  const { ab, ba } = await ask(`${fabric}/links/${end}/shares`)
  const large = ({ contributors }) => new Set(contributors.filter(({ contributor, share }) => contributor !== 'rest' && share > 0.1).map(({ operation, name }) => operation ?? name)).size
  const most = large(ab) >= large(ba) ? ab : ba
  return { end, from: most.from.name, count: large(most) }
}
const shared = emulated === '' ? { end: link } : (await Promise.all(order.map(sharers))).sort((i, j) => j.count - i.count)[0]
const leaf = topology.nodes.guid[topology.nodes.leaf[topology.nodes.host.indexOf(host)]]
const minutesAgo = (n) => new Date(Date.now() - n * 60_000).toISOString()

const map = async (page) => {
  await page.waitForFunction(() => document.querySelector('canvas[data-drawn]') !== null && /read \d+ of/.test(document.querySelector('.legend')?.textContent ?? ''))
}
const panel = async (page) => {
  await map(page)
  await page.locator('.panel table:not(.u-legend)').first().waitFor()
}
const charts = async (page) => {
  await page.locator('[aria-label="Over time"] figure.chart').nth(2).waitFor()
}

const contributors = async (page) => {
  await panel(page)
  await page.getByText(`${shared.from.split('[')[0]} sends, by contributor`).first().evaluate((e) => e.scrollIntoView())
}

/** README's picture. */
const SHARED = [{ name: 'shares', url: `/fabric?link=${shared.end}&window=60`, ready: contributors, tour: [1280, 'light'] }]
/** Name, address, what to wait for, and what to do then. `tour`: which variants the tour shows. */
const SHOTS = [
  { name: 'fabric', url: '/fabric', ready: map, tour: [1280, 'light'] },
  { name: 'leaf', url: `/fabric?open=${leaf}&node=${leaf}&find=1`, ready: panel, tour: [1280, 'light'] },
  { name: 'link', url: `/fabric?link=${link}&window=60`, ready: panel, tour: [1280, 'light'] },
  { name: 'fabric-waiting', url: '/fabric?colour=waiting&window=60&palette=blind', ready: map },
  { name: 'fabric-past', url: `/fabric?at=${minutesAgo(1)}&window=60`, ready: map },
  { name: 'fabric-job', url: `/fabric?job=${job}`, ready: async (page) => { await map(page); await page.getByTestId('overlaid').waitFor() }, tour: [1280, 'light'] },
  { name: 'links', url: '/fabric?table=1', ready: (page) => page.locator('[data-testid=links] tbody tr').nth(5).waitFor() },
  { name: 'jobs', url: '/jobs', ready: (page) => page.locator('[data-testid=jobs] tbody tr').first().waitFor(), tour: [1280, 'light'] },
  { name: 'jobs-ended', url: '/jobs?state=ended', ready: (page) => page.locator('main').getByText(/ended|No ended/).first().waitFor() },
  { name: 'job', url: `/jobs/${job}`, ready: charts, tour: [1280, 'light'] },
  { name: 'job-time', url: `/jobs/${job}`, ready: async (page) => { await charts(page); await page.getByTestId('bounds').waitFor(); await page.locator('[aria-label="Over time"]').evaluate((e) => e.scrollIntoView()) }, height: 1400, tour: [1280, 'light'] },
  { name: 'nodes', url: '/nodes', ready: (page) => page.locator('[data-testid=nodes] tbody tr').first().waitFor() },
  { name: 'node', url: `/nodes/${host}?unfold=0`, ready: (page) => page.locator('figure.chart').first().waitFor(), tour: [1280, 'light'] },
  { name: 'wrong', url: '/fabric?subnet=0x0000000000000001', ready: (page) => page.getByTestId('banner').waitFor() },
]

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'] })
const folder = out === '' ? here : out
fs.mkdirSync(folder, { recursive: true })
for (const shot of emulated === '' ? SHOTS : SHARED) {
  const variants = out !== '' ? [1280, 1920].flatMap((width) => ['light', 'dark'].map((theme) => [width, theme])) : shot.tour === undefined ? [] : [shot.tour]
  for (const [width, colorScheme] of variants) {
    const context = await browser.newContext({ viewport: { width, height: shot.height ?? (width === 1280 ? 800 : 1080) }, colorScheme })
    const page = await context.newPage()
    await page.goto(site + shot.url)
    await shot.ready(page)
    // What is requested again and again has come once more, and charts have their size; an emulated fabric leaves little time.
    await page.waitForTimeout(emulated === '' ? 2000 : 20_000)
    const file = path.join(folder, out === '' ? `${shot.name}.png` : `${shot.name}-${width}-${colorScheme}.png`)
    await writePng(page, await page.screenshot(), file)
    console.log(`${file} ${fs.statSync(file).size}`)
    await context.close()
  }
}
await browser.close()
