// The reader's preferences, stored in the browser: theme and palette. A URL may set them too, for a wall display.
import { useEffect, useState } from 'preact/hooks'
import { PALETTES, type Palette, type Theme } from '../colour.ts'

export type ThemeChoice = 'system' | Theme
export const THEMES: readonly ThemeChoice[] = ['system', 'light', 'dark']

export interface Preferences {
  choice: ThemeChoice
  theme: Theme
  palette: Palette
  setChoice: (choice: ThemeChoice) => void
  setPalette: (palette: Palette) => void
}

function chosen<T extends string>(name: string, list: readonly T[]): T {
  const inUrl = new URLSearchParams(location.search).get(name)
  let stored: string | null = null
  try {
    stored = localStorage.getItem(`throughline-${name}`)
  } catch {
    // Storage may be switched off; then the default holds.
  }
  return list.find((item) => item === inUrl) ?? list.find((item) => item === stored) ?? (list[0] as T)
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(`throughline-${name}`, value)
  } catch {
    // As above.
  }
}

/** The reader's preferences; the theme is set on the document for the style sheet. */
export function usePreferences(): Preferences {
  const [choice, setChoice] = useState(() => chosen('theme', THEMES))
  const [palette, setPalette] = useState(() => chosen('palette', PALETTES))
  const [systemDark, setSystemDark] = useState(() => matchMedia('(prefers-color-scheme: dark)').matches)
  useEffect(() => {
    const media = matchMedia('(prefers-color-scheme: dark)')
    const changed = () => setSystemDark(media.matches)
    media.addEventListener('change', changed)
    return () => media.removeEventListener('change', changed)
  }, [])
  const theme: Theme = choice === 'system' ? (systemDark ? 'dark' : 'light') : choice
  useEffect(() => {
    document.documentElement.dataset.theme = theme
  }, [theme])
  return {
    choice,
    theme,
    palette,
    setChoice: (value) => {
      store('theme', value)
      setChoice(value)
    },
    setPalette: (value) => {
      store('palette', value)
      setPalette(value)
    },
  }
}
