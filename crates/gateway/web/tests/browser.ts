// The browser of the tests: pages of the server that `cargo test` started, their errors, and what they draw.
import { type Browser, type Locator, type Page, chromium } from 'playwright-core'

function given(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set: run \`cargo test -p throughline-cli --test pages\``)
  return value
}

export const SITE = given('PAGES_URL')

/** Graphics in software: test machines have no card. */
export const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: given('PAGES_BROWSER'),
    args: ['--no-sandbox', '--use-angle=swiftshader', '--enable-unsafe-swiftshader'],
  })

/** Makes the parent of the tests do something, such as stopping the server. */
export async function control(what: string): Promise<void> {
  const answer = await fetch(`${given('PAGES_CONTROL')}${what}`)
  if (answer.status !== 204) throw new Error(`${what}: ${answer.status}`)
}

export interface Tab {
  page: Page
  /** Errors of the console and exceptions that nobody caught. */
  errors: string[]
  /** Requests to anywhere but the server. */
  strangers: string[]
  close: () => Promise<void>
}

/** A tab of its own, with storage of its own. */
export async function tab(browser: Browser, path: string, options: { width?: number; height?: number; dark?: boolean } = {}): Promise<Tab> {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: options.height ?? 800 },
    colorScheme: options.dark === true ? 'dark' : 'light',
    timezoneId: 'UTC',
  })
  const page = await context.newPage()
  const errors: string[] = []
  const strangers: string[] = []
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  page.on('pageerror', (error) => errors.push(String(error)))
  page.on('request', (request) => {
    if (!request.url().startsWith(`${SITE}/`)) strangers.push(request.url())
  })
  await page.goto(SITE + path)
  return { page, errors, strangers, close: () => context.close() }
}

/** Waits for something that is not an element's state. */
export async function until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
  const end = Date.now() + 60_000
  for (;;) {
    const found = await look()
    if (found !== undefined && found !== false) return found
    if (Date.now() > end) throw new Error(`never: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

export const query = (page: Page) => new URL(page.url()).searchParams

/** How often the map was drawn. */
export const drawn = async (page: Page) => Number((await page.getByTestId('map').getAttribute('data-drawn')) ?? '0')

/** Waits until the map is drawn with what links carry, and rests. */
export async function mapDrawn(page: Page): Promise<void> {
  const map = page.getByTestId('map')
  await map.waitFor()
  let last = -1
  await until('the map is drawn', async () => {
    const state = await map.evaluate((canvas) => ({ ...(canvas as HTMLElement).dataset }))
    const now = Number(state.drawn ?? '0')
    const rests = state.still === 'true' && state.loaded === 'true' && now > 0 && now === last
    last = now
    if (!rests) await page.waitForTimeout(300)
    return rests
  })
}

/** How many points of an element's picture have each colour, as hexadecimal numbers. */
export async function colours(page: Page, element: Locator): Promise<Map<string, number>> {
  const png = await element.screenshot()
  const counted = await page.evaluate(async (data) => {
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0))
    const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }))
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height)
    const context = canvas.getContext('2d') as OffscreenCanvasRenderingContext2D
    context.drawImage(bitmap, 0, 0)
    const { data: points } = context.getImageData(0, 0, canvas.width, canvas.height)
    const counts: Record<string, number> = {}
    for (let i = 0; i < points.length; i += 4) {
      const name = [points[i], points[i + 1], points[i + 2]].map((n) => (n ?? 0).toString(16).padStart(2, '0')).join('')
      counts[name] = (counts[name] ?? 0) + 1
    }
    return counts
  }, png.toString('base64'))
  return new Map(Object.entries(counted))
}

/** Elements that can have the focus and have no name for a screen reader, by role. */
export async function nameless(page: Page): Promise<string[]> {
  const session = await page.context().newCDPSession(page)
  const { nodes } = await session.send('Accessibility.getFullAXTree')
  await session.detach()
  const wanted = nodes.filter((node) => {
    const role = String(node.role?.value)
    if (node.ignored || role === 'RootWebArea' || role === 'main') return false
    return node.properties?.some((p) => p.name === 'focusable' && p.value.value === true) || role === 'img' || role === 'image' || role === 'table'
  })
  return wanted.filter((node) => String(node.name?.value ?? '').trim() === '').map((node) => `${node.role?.value} ${node.description?.value ?? ''}`)
}
