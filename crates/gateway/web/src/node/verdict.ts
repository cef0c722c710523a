// What is wrong with a host, in words: the first line of its page.
import type { Node } from '../api/client.ts'
import { counted, percent } from '../text.ts'
import { share } from './drawing.ts'
import { isNarrow } from './tables.tsx'

export interface Verdict {
  isWrong: boolean
  text: string
}

/** A clock that is off, links that are down, full ones, PCIe links that are slower than their ports. */
export function verdicts(node: Node): Verdict[] {
  const { nvlink, port } = node.thresholds
  const wrong: string[] = []
  const ahead = node.clock_offset_seconds
  if (ahead !== null) {
    const where = ahead > 0 ? 'ahead' : 'behind'
    wrong.push(`its clock is ${Math.abs(ahead).toFixed(0)} s ${where}, and the times of its rows are moved by as much: \`chronyc tracking\` there shows why`)
  }
  // An end that leads to something and is not active; one that leads nowhere is not wired.
  const down = node.links.active.filter((isActive, i) => !isActive && node.links.remote_kind[i] !== 'unknown').length
  if (down > 0) wrong.push(`${counted(down, 'NVLink')} down`)
  const most = (out: number | null, back: number | null, speed: number | null) => Math.max(share(out, speed) ?? 0, share(back, speed) ?? 0)
  const full = node.logical.filter((l) => most(l.out_bytes_per_second, l.in_bytes_per_second, l.bytes_per_second) > nvlink.full_above)
  if (full.length > 0) wrong.push(`${counted(full.length, 'NVLink connection')} more than ${percent(nvlink.full_above)} used`)
  for (const a of node.adapters) {
    if (a.state !== null && a.state !== 'Active') wrong.push(`port ${a.port} of ${a.device} is ${a.state}`)
    const used = most(a.out_bytes_per_second, a.in_bytes_per_second, a.bytes_per_second)
    if (used > port.full_above) wrong.push(`port ${a.port} of ${a.device} is more than ${percent(port.full_above)} used`)
    if (a.pcie !== null && isNarrow(a.pcie)) wrong.push(`the PCIe link of ${a.device} is slower than its ports`)
  }
  if (wrong.length > 0) return wrong.map((text) => ({ isWrong: true, text }))
  const unread = node.adapters.length === 0 && node.logical.length === 0
  return [{ isWrong: false, text: unread ? 'No link of this host is read: nothing can be said.' : 'Nothing is wrong: all links are up, and none is full.' }]
}
