// The time of now in whole steps, for addresses of ranges that end now: one address, and so one fetch, a step.
import { useEffect, useState } from 'preact/hooks'

/** Milliseconds since 1970 at the beginning of the step; stands still while the page is in the background or `isOn` is false. */
export function useClock(step: number, isOn: boolean): number {
  const of = () => Math.floor(Date.now() / step) * step
  const [now, setNow] = useState(of)
  useEffect(() => {
    if (!isOn) return undefined
    const timer = setInterval(() => !document.hidden && setNow(of()), step)
    return () => clearInterval(timer)
  }, [step, isOn])
  return now
}
