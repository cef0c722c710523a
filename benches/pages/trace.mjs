// Time of the page's main thread in each frame, from Chromium's own trace: the processor time that its tasks used, and
// the time that passed in them, which also has what they waited for: the drawing of graphics in software, and other
// processes on the same cores.

/** Records while `act` runs; resolves to what the main thread did for the frames of the browser: lists of milliseconds
 * `used` and `passed` of those in which the page drew, and `all`, what was used for each, those for input alone too. */
export async function framesDuring(browser, act) {
  return frames(await traced(browser, act))
}

/** All events of Chromium's trace while `act` runs. */
export async function traced(browser, act) {
  const session = await browser.newBrowserCDPSession()
  const events = []
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value))
  const ended = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve))
  const includedCategories = ['toplevel', 'devtools.timeline']
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories } })
  await act()
  await session.send('Tracing.end')
  await ended
  await session.detach()
  return events
}

/** Tasks of the thread that runs animation frames, summed from the end of one frame of the browser to the end of the next.
 * Where graphics are slow, the browser makes several frames for input between two in which the page draws. */
export function frames(events) {
  const animations = events.filter((e) => e.name === 'FireAnimationFrame')
  const counts = new Map()
  for (const e of animations) counts.set(`${e.pid}.${e.tid}`, (counts.get(`${e.pid}.${e.tid}`) ?? 0) + 1)
  const [thread] = [...counts].sort((a, b) => b[1] - a[1])[0] ?? []
  const isOfThread = (e) => `${e.pid}.${e.tid}` === thread
  const times = (list) => list.filter(isOfThread).map((e) => e.ts).sort((a, b) => a - b)
  const draws = times(animations)
  const ends = times(events.filter((e) => e.name === 'AnimationFrame' && e.ph === 'e'))
  const tasks = events.filter((e) => isOfThread(e) && e.ph === 'X' && e.name === 'ThreadControllerImpl::RunTask').sort((a, b) => a.ts - b.ts)
  if (draws.length === 0 || ends.length === 0) throw new Error('this Chromium reports no frames')
  if (tasks.filter((task) => task.tdur === undefined).length * 100 > tasks.length) throw new Error('this Chromium does not report the processor time of tasks')
  const result = { used: [], passed: [], all: [] }
  let sums = { used: 0, passed: 0, isDrawn: false }
  let last = Number.NEGATIVE_INFINITY
  const next = { draw: 0, end: 0 }
  const reached = (list, which, time) => {
    const before = next[which]
    while (next[which] < list.length && list[next[which]] <= time) next[which] += 1
    return next[which] > before
  }
  for (const task of tasks) {
    // A task within a task is counted with the outer one.
    if (task.ts < last) continue
    last = task.ts + task.dur
    // Of a few tasks Chromium does not tell it: no more than what passed.
    sums.used += (task.tdur ?? task.dur) / 1000
    sums.passed += task.dur / 1000
    sums.isDrawn = reached(draws, 'draw', last) || sums.isDrawn
    if (!reached(ends, 'end', last)) continue
    result.all.push(sums.used)
    if (sums.isDrawn) {
      result.used.push(sums.used)
      result.passed.push(sums.passed)
    }
    sums = { used: 0, passed: 0, isDrawn: false }
  }
  return result
}
