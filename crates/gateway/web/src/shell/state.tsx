// The state of a job, in the word and colour that all pages have for it. The server decides it (`job_state` in the database).
import type { JobState } from '../api/client.ts'

export const State = ({ state }: { state: JobState }) => <span class={`state ${state}`}>{state}</span>
