// The list of pages, and the frame of each: navigation, search, preferences.
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { PALETTES } from '../colour.ts'
import { FabricPage } from '../fabric/page.tsx'
import { JobPage } from '../job/page.tsx'
import { JobsPage } from '../jobs/page.tsx'
import { GroupPage } from '../multicast/group.tsx'
import { GroupsPage } from '../multicast/list.tsx'
import { NodePage } from '../node/page.tsx'
import { NodesPage } from '../node/list.tsx'
import { followLinks, oneOf, place, useUrl } from '../url.ts'
import { Boundary } from './boundary.tsx'
import { ClockDoubt } from './doubt.tsx'
import { type Preferences, THEMES, usePreferences } from './preferences.ts'
import { Search } from './search.tsx'

interface Shown {
  query: URLSearchParams
  preferences: Preferences
}

interface Listed {
  /** Its name in the navigation. */
  name: string
  title: string
  show: (shown: Shown) => ComponentChildren
  /** The page of a single thing. */
  one?: { title: string; show: (thing: string, shown: Shown) => ComponentChildren }
}

/** The pages by the first part of their paths. The server answers the same paths (crates/gateway/src/pages.rs). */
const PAGES: Record<string, Listed> = {
  fabric: {
    name: 'Fabric',
    title: 'Fabric',
    show: ({ query, preferences }) => <FabricPage query={query} preferences={preferences} />,
  },
  jobs: {
    name: 'Jobs',
    title: 'Jobs',
    show: ({ query }) => <JobsPage query={query} />,
    one: { title: 'Job', show: (id, { query, preferences }) => <JobPage key={id} id={id} query={query} preferences={preferences} /> },
  },
  nodes: {
    name: 'Nodes',
    title: 'Nodes',
    show: ({ query }) => <NodesPage query={query} />,
    one: { title: 'Node', show: (name, { query, preferences }) => <NodePage key={name} name={name} query={query} preferences={preferences} /> },
  },
  multicast: {
    name: 'Multicast',
    title: 'Multicast groups',
    show: ({ query }) => <GroupsPage query={query} />,
    one: { title: 'Multicast', show: (mlid, { query }) => <GroupPage key={mlid} id={mlid} query={query} /> },
  },
}

/** The page of a path: its place in the navigation, its title, and a function that shows it. */
function pageOf(path: string): { page: string; title: string; show: (shown: Shown) => ComponentChildren } | undefined {
  const { page, thing } = place(path) ?? {}
  const listed = page !== undefined && Object.hasOwn(PAGES, page) ? PAGES[page] : undefined
  if (page === undefined || listed === undefined) return undefined
  if (thing === undefined) return { page, title: listed.title, show: listed.show }
  const { one } = listed
  return one && { page, title: `${one.title} ${thing}`, show: (shown) => one.show(thing, shown) }
}

export function App() {
  const { path, query } = useUrl()
  const preferences = usePreferences()
  const now = pageOf(path)
  const title = now?.title ?? 'Not found'
  useEffect(() => {
    document.title = `${title} – Throughline`
  }, [title])
  return (
    <div class="app" onClick={(event) => followLinks(event, (other) => pageOf(other) !== undefined)}>
      <a class="skip" href="#main" target="_self" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus() }}>
        Skip to content
      </a>
      <header class="top">
        <strong class="brand">Throughline</strong>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([page, { name }]) => (
            <a key={page} href={`/${page}`} aria-current={now?.page === page ? 'page' : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <span class="spring" />
        <Search />
        <Choices preferences={preferences} />
      </header>
      <ClockDoubt />
      <main id="main" tabIndex={-1}>
        <Boundary key={path}>
          {now ? now.show({ query, preferences }) : <Missing path={path} />}
        </Boundary>
      </main>
    </div>
  )
}

function Missing({ path }: { path: string }) {
  return (
    <section class="page">
      <h1>No such page</h1>
      <p>
        <code>{path}</code> is none of the pages. The navigation above has them.
      </p>
    </section>
  )
}

function Choices({ preferences }: { preferences: Preferences }) {
  return (
    <>
      <label>
        <span class="hidden">Theme</span>
        <select value={preferences.choice} onChange={(e) => preferences.setChoice(oneOf(THEMES, e.currentTarget.value))}>
          <option value="system">System theme</option>
          <option value="light">Light</option>
          <option value="dark">Dark</option>
        </select>
      </label>
      <label>
        <span class="hidden">Colours</span>
        <select value={preferences.palette} onChange={(e) => preferences.setPalette(oneOf(PALETTES, e.currentTarget.value))}>
          <option value="site">Green to red</option>
          <option value="blind">Colour-blind</option>
        </select>
      </label>
      <a href="/licenses.txt" target="_blank" rel="noreferrer" class="dim">
        Licences
      </a>
    </>
  )
}
