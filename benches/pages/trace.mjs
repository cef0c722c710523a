// Time of the page's main thread in each frame, from Chromium's own trace: the processor time that its tasks used, and
// the time that passed in them, which also has what they waited for: the drawing of graphics in software, and other
// processes on the same cores.

/** Records while `act` runs; resolves to what the main thread did, frame by frame: lists of milliseconds `used` and
 * `passed`. */
export async function framesDuring(browser, act) {
  return frames(await traced(browser, act))
}

/** All events of Chromium's trace while `act` runs. */
export async function traced(browser, act) {
  const session = await browser.newBrowserCDPSession()
  const events = []
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value))
  const ended = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve))
  const includedCategories = ['toplevel', 'devtools.timeline', 'disabled-by-default-devtools.timeline']
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories } })
  await act()
  await session.send('Tracing.end')
  await ended
  await session.detach()
  return events
}

/** Tasks of the thread that runs animation frames, summed from the end of one frame to the end of the next. */
export function frames(events) {
  const animations = events.filter((e) => e.name === 'FireAnimationFrame')
  const counts = new Map()
  for (const e of animations) counts.set(`${e.pid}.${e.tid}`, (counts.get(`${e.pid}.${e.tid}`) ?? 0) + 1)
  const [thread] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? []
  if (thread === undefined) return { used: [], passed: [] }
  const isOfThread = (e) => `${e.pid}.${e.tid}` === thread
  const starts = animations.filter(isOfThread).map((e) => e.ts).sort((a, b) => a - b)
  const tasks = events
    .filter((e) => isOfThread(e) && e.ph === 'X' && (e.name === 'RunTask' || e.name === 'ThreadControllerImpl::RunTask'))
    .sort((a, b) => a.ts - b.ts)
  const used = []
  const passed = []
  let sums = { used: 0, passed: 0 }
  let next = 0
  let last = Number.NEGATIVE_INFINITY
  for (const task of tasks) {
    // A task within a task is counted with the outer one.
    if (task.ts < last) continue
    last = task.ts + task.dur
    if (task.tdur === undefined) throw new Error('this Chromium does not tell the processor time of tasks')
    sums.used += task.tdur / 1000
    sums.passed += task.dur / 1000
    let isFrame = false
    while (next < starts.length && starts[next] <= last) {
      isFrame = true
      next += 1
    }
    if (!isFrame) continue
    used.push(sums.used)
    passed.push(sums.passed)
    sums = { used: 0, passed: 0 }
  }
  // What came before the first frame is not of one.
  return { used: used.slice(1), passed: passed.slice(1) }
}
