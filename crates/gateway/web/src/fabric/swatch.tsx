// A small square in the colour of a value, beside its number.
import { type Step, colours } from '../colour.ts'
import type { Preferences } from '../shell/preferences.ts'

export function Swatch({ step, preferences }: { step: Step; preferences: Preferences }) {
  return (
    <svg class="swatch" width="10" height="10" aria-hidden="true">
      <rect width="10" height="10" rx="2" fill={colours(preferences.palette, preferences.theme)[step]} />
    </svg>
  )
}
