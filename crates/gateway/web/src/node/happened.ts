// Which events a host's page shows.
import type { Events } from '../api/client.ts'

type Event = Events['events'][number]

/** Those of GPUs and sources, and of the rest those that warn; a counter that began anew is of no use to a person. */
export const shown = (events: readonly Event[]) => events.filter((e) => e.severity === 'warning' || e.severity === 'error' || e.kind.startsWith('gpu.') || (e.kind.startsWith('source.') && e.kind !== 'source.up'))
