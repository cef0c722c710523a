// What is around each page: navigation, search, preferences; and which page a path shows.
import { useEffect } from 'preact/hooks'
import { PALETTES } from '../colour.ts'
import { FabricPage } from '../fabric/page.tsx'
import { JobPage } from '../job/page.tsx'
import { JobsPage } from '../jobs/page.tsx'
import { GroupPage } from '../multicast/group.tsx'
import { GroupsPage } from '../multicast/list.tsx'
import { NodePage } from '../node/page.tsx'
import { NodesPage } from '../node/list.tsx'
import { type Place, followLinks, oneOf, place, useUrl } from '../url.ts'
import { Boundary } from './boundary.tsx'
import { type Preferences, THEMES, usePreferences } from './preferences.ts'
import { Search } from './search.tsx'

const TITLES: Record<Place['page'], string> = { fabric: 'Fabric', jobs: 'Jobs', job: 'Job', nodes: 'Nodes', node: 'Node', groups: 'Multicast groups', group: 'Multicast', missing: 'Not found' }

export function App() {
  const { path, query } = useUrl()
  const preferences = usePreferences()
  const now = place(path)
  const detail = now.page === 'job' ? now.id : now.page === 'node' ? now.name : now.page === 'group' ? now.mlid : ''
  useEffect(() => {
    document.title = `${TITLES[now.page]}${detail === '' ? '' : ` ${detail}`} – Throughline`
  }, [now.page, detail])
  return (
    <div class="app" onClick={followLinks}>
      <a class="skip" href="#main" target="_self" onClick={(e) => { e.preventDefault(); document.getElementById('main')?.focus() }}>
        Skip to content
      </a>
      <header class="top">
        <strong class="brand">Throughline</strong>
        <nav aria-label="Pages">
          {(
            [
              ['/fabric', 'Fabric', ['fabric']],
              ['/jobs', 'Jobs', ['jobs', 'job']],
              ['/nodes', 'Nodes', ['nodes', 'node']],
              ['/multicast', 'Multicast', ['groups', 'group']],
            ] as const
          ).map(([href, text, pages]) => (
            <a key={href} href={href} aria-current={(pages as readonly string[]).includes(now.page) ? 'page' : undefined}>
              {text}
            </a>
          ))}
        </nav>
        <span class="spring" />
        <Search />
        <Choices preferences={preferences} />
      </header>
      <main id="main" tabIndex={-1}>
        <Boundary key={path}>
          <Page now={now} query={query} preferences={preferences} />
        </Boundary>
      </main>
    </div>
  )
}

function Page({ now, query, preferences }: { now: Place; query: URLSearchParams; preferences: Preferences }) {
  switch (now.page) {
    case 'fabric':
      return <FabricPage query={query} preferences={preferences} />
    case 'jobs':
      return <JobsPage query={query} />
    case 'job':
      return <JobPage key={now.id} id={now.id} query={query} preferences={preferences} />
    case 'nodes':
      return <NodesPage query={query} />
    case 'node':
      return <NodePage key={now.name} name={now.name} query={query} preferences={preferences} />
    case 'groups':
      return <GroupsPage query={query} />
    case 'group':
      return <GroupPage key={now.mlid} id={now.mlid} query={query} />
    case 'missing':
      return (
        <section class="page">
          <h1>No such page</h1>
          <p>
            <code>{now.path}</code> is none of the pages: <a href="/fabric">the fabric</a>, <a href="/jobs">jobs</a>, <a href="/nodes">nodes</a>, <a href="/multicast">multicast groups</a>.
          </p>
        </section>
      )
  }
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
