// What is left of a page that broke: the navigation above it stays, and a line has the error.
import { Component, type ComponentChildren } from 'preact'

interface Props {
  children: ComponentChildren
}

export class Boundary extends Component<Props, { broken?: string }> {
  static getDerivedStateFromError(error: unknown) {
    return { broken: error instanceof Error ? error.message : String(error) }
  }

  componentDidCatch(error: unknown) {
    console.error(error)
  }

  render() {
    if (this.state.broken === undefined) return this.props.children
    return (
      <section class="page">
        <p class="banner bad" role="alert" data-testid="broken">
          <strong>This page broke.</strong> {this.state.broken}. Please report it with the address of the page.
          <button type="button" onClick={() => this.setState({ broken: undefined })}>
            Try again
          </button>
        </p>
      </section>
    )
  }
}
