// Time of the page's main thread in each frame, from Chromium's own trace.

/** Records while `act` runs; resolves to the milliseconds that the main thread was busy, frame by frame. */
export async function framesDuring(browser, act) {
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
  return frames(events)
}

/** Tasks of the thread that runs animation frames, summed from the end of one frame to the end of the next. */
export function frames(events) {
  const animations = events.filter((e) => e.name === 'FireAnimationFrame')
  const counts = new Map()
  for (const e of animations) counts.set(`${e.pid}.${e.tid}`, (counts.get(`${e.pid}.${e.tid}`) ?? 0) + 1)
  const [thread] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? []
  if (thread === undefined) return []
  const isOfThread = (e) => `${e.pid}.${e.tid}` === thread
  const starts = animations.filter(isOfThread).map((e) => e.ts).sort((a, b) => a - b)
  const tasks = events
    .filter((e) => isOfThread(e) && e.ph === 'X' && (e.name === 'RunTask' || e.name === 'ThreadControllerImpl::RunTask'))
    .sort((a, b) => a.ts - b.ts)
  // A task within a task is counted with the outer one.
  const outer = []
  for (const task of tasks) {
    const last = outer[outer.length - 1]
    if (last === undefined || task.ts >= last.ts + last.dur) outer.push(task)
  }
  const list = []
  let sum = 0
  let next = 0
  for (const task of outer) {
    sum += task.dur / 1000
    const end = task.ts + task.dur
    let isFrame = false
    while (next < starts.length && starts[next] <= end) {
      isFrame = true
      next += 1
    }
    if (!isFrame) continue
    list.push(sum)
    sum = 0
  }
  // What came before the first frame is not of one.
  return list.slice(1)
}
