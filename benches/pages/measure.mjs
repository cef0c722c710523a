// Measures the pages of a server in a browser; benches/pages.sh starts both. Prints figures against goals; exits with 2
// where one is missed.
import { performance } from 'node:perf_hooks'
import path from 'node:path'
import { framesDuring } from './trace.mjs'

const [site, executablePath, playwright] = process.argv.slice(2)
const { chromium } = await import(path.resolve(playwright))
const hosts = Number(process.env.HOSTS)
const jobs = Number(process.env.JOBS)
const isLarge = hosts > 4000
/** Openings, each in a browser without anything kept. */
const OPENINGS = Number(process.env.OPENINGS ?? 5)
/** Seconds of each live page. */
const LENGTH = Number(process.env.LENGTH ?? 60)
/** Movements of the hand, and how long they may take where frames come slowly. */
const MOVES = 300
const MOVES_MS = 20_000
const SIZE = { width: 1920, height: 1080 }
let isMissed = false

const sorted = (list) => [...list].sort((a, b) => a - b)
const quantile = (list, share) => sorted(list)[Math.min(Math.floor(list.length * share), list.length - 1)] ?? Number.NaN
const median = (list) => quantile(list, 0.5)

/** A line with the verdict on one figure. */
function judge(what, figure, goal, unit, more = '') {
  const met = figure <= goal
  isMissed ||= !met
  console.log(`${what}: ${figure.toFixed(1)} ${unit}, goal ${goal} ${unit}: ${met ? 'met' : 'MISSED'}${more === '' ? '' : ` (${more})`}`)
}
const spread = (list) => `${list.length} times, 95th percentile ${quantile(list, 0.95).toFixed(1)}, slowest ${Math.max(...list).toFixed(1)}`

// Frames are not held back to a screen's rhythm, which a headless browser has none of: painted is when it is painted.
const UNHELD = ['--disable-frame-rate-limit', '--disable-gpu-vsync']
const launch = (args) => chromium.launch({ executablePath, args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader', ...args] })

/** In the page: when each request to the API began, and when what it changed was painted. */
function watch() {
  const kept = { painted: [] }
  window.kept = kept
  performance.setResourceTimingBufferSize(100_000)
  let waiting = null
  const own = window.fetch
  window.fetch = async (url, options) => {
    const begun = performance.now()
    const answer = await own(url, options)
    if (String(url).endsWith(window.watched)) waiting = { begun }
    return answer
  }
  // The first task after the frame in which it was drawn.
  window.isDrawn = () => {
    if (waiting === null) return
    const { begun } = waiting
    waiting = null
    requestAnimationFrame(() => {
      const channel = new MessageChannel()
      channel.port1.onmessage = () => kept.painted.push(performance.now() - begun)
      channel.port2.postMessage(null)
    })
  }
}

/** Opens the map; resolves to milliseconds from opening until links have their colours. */
async function open(browser, address) {
  const context = await browser.newContext({ viewport: SIZE })
  const page = await context.newPage()
  const begun = performance.now()
  await page.goto(site + address, { waitUntil: 'commit' })
  const isDrawn = () => document.querySelector('canvas[data-drawn]') !== null && /read \d+ of/.test(document.querySelector('.legend')?.textContent ?? '')
  await page.waitForFunction(isDrawn, undefined, { polling: 'raf' }).catch(async (cause) => {
    throw new Error(`${address} is not drawn: ${await page.getByTestId('banner').allInnerTexts()} ${cause.message}`)
  })
  // Two frames on, what was drawn is on the screen, the graphics process's part included.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  return { page, context, took: performance.now() - begun }
}

async function openings(browser) {
  const list = []
  for (let i = 0; i < OPENINGS; i += 1) {
    const { context, took } = await open(browser, '/fabric')
    list.push(took)
    await context.close()
  }
  judge(`map of ${hosts} hosts drawn after opening, slowest of ${OPENINGS}`, Math.max(...list), isLarge ? 5000 : 2000, 'ms', `median ${median(list).toFixed(0)}`)
}

/** Drags the map to and fro and turns the wheel over it. */
async function moving(browser, address, what) {
  const { page, context } = await open(browser, address)
  const box = await page.getByTestId('map').boundingBox()
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2]
  const moves = async (act) => {
    const end = performance.now() + MOVES_MS
    for (let i = 0; i < MOVES && performance.now() < end; i += 1) {
      await act(i)
      await new Promise((done) => setTimeout(done, 16))
    }
  }
  for (const [name, act] of [
    ['panning', async () => {
      await page.mouse.move(x, y)
      await page.mouse.down()
      await moves((i) => page.mouse.move(x + 300 * Math.sin(i / 12), y + 100 * Math.sin(i / 7)))
      await page.mouse.up()
    }],
    ['zooming', async () => {
      await page.mouse.move(x, y)
      await moves((i) => page.mouse.wheel(0, i % 60 < 30 ? -60 : 60))
    }],
  ]) {
    const { used, passed, all } = await framesDuring(browser, act)
    const more = `median ${median(used).toFixed(1)}, ${used.length} frames drawn of ${all.length}, the longest ${Math.max(...all).toFixed(1)}; with what it waited for ${quantile(passed, 0.95).toFixed(1)} and ${median(passed).toFixed(1)}`
    judge(`${name} ${what}: main thread a frame that is drawn, 95th percentile`, quantile(used, 0.95), 16, 'ms', more)
    await page.waitForTimeout(500)
  }
  await context.close()
}

/** Ten requests a second of others, as benches/api.sh has them. */
function others() {
  const fabric = `${site}/api/v1/fabric/0xfe80000000000000/load`
  let i = 0
  const failed = []
  const timer = setInterval(() => {
    i += 1
    fetch(i % 2 === 0 ? fabric : `${site}/api/v1/jobs?limit=100`).then((answer) => answer.arrayBuffer()).catch((cause) => failed.push(cause))
  }, 100)
  return () => {
    clearInterval(timer)
    if (failed.length > 0) throw failed[0]
    return i
  }
}

/** A live page for some time: from request to painted, and of that the API. */
async function live(browser, address, watched, sign, goals, what) {
  const context = await browser.newContext({ viewport: SIZE })
  const page = await context.newPage()
  await page.addInitScript(watch)
  await page.addInitScript((path) => { window.watched = path }, watched)
  await page.goto(site + address)
  await page.locator(sign.element).first().waitFor()
  await page.evaluate(({ element, attribute }) => {
    const options = attribute === undefined ? { childList: true, characterData: true, subtree: true } : { attributes: true, attributeFilter: [attribute] }
    new MutationObserver(() => window.isDrawn()).observe(document.querySelector(element), options)
  }, sign)
  await page.waitForTimeout(3000)
  await page.evaluate(() => {
    window.kept.painted.length = 0
    performance.clearResourceTimings()
  })
  const stop = others()
  await page.waitForTimeout(LENGTH * 1000)
  stop()
  const { answered, painted } = await page.evaluate((path) => {
    const answers = performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith(path))
    return { answered: answers.map((entry) => entry.responseEnd - entry.startTime), painted: window.kept.painted }
  }, watched)
  judge(`${what}, request to painted, median`, median(painted), goals[0], 'ms', spread(painted))
  judge(`${what}, the API's part, median`, median(answered), goals[1], 'ms', spread(answered))
  await context.close()
}

const unheld = await launch(UNHELD)
console.log(`Chromium ${unheld.version()}, graphics in software (SwiftShader), window of ${SIZE.width} x ${SIZE.height}; ${hosts} hosts, ${jobs} jobs, rows coming in`)
if (!isLarge) {
  await live(unheld, '/fabric', '/load?window=10', { element: '[data-testid=map]', attribute: 'data-drawn' }, [196, 100], `map of ${hosts} hosts`)
  await live(unheld, '/jobs', '/api/v1/jobs?state=live&sort=start&order=desc&limit=100', { element: 'main' }, [18, 10], `page of ${jobs} live jobs`)
}
await unheld.close()
const browser = await launch([])
await openings(browser)
await moving(browser, '/fabric', `the map of ${hosts} hosts`)
// The heaviest last.
await moving(browser, '/fabric?open=all', `the map of ${hosts} hosts, all of them open`)
await browser.close()
process.exit(isMissed ? 2 : 0)
