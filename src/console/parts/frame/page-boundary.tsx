// Shows an error in place of a page that could not be shown, so that the frame around it still works.
import { Component, type ComponentChildren } from "preact";
import { ErrorBox } from "../controls.tsx";

interface PageBoundaryProps {
  /** Address of the page: another page is shown even if this one failed. */
  readonly path: string;
  readonly children: ComponentChildren;
}

interface Failure {
  readonly path: string;
  readonly error: unknown;
}

export class PageBoundary extends Component<PageBoundaryProps, { readonly failure?: Failure | undefined }> {
  override componentDidCatch(error: unknown): void {
    this.setState({ failure: { path: this.props.path, error } });
  }

  override render({ path, children }: PageBoundaryProps): ComponentChildren {
    const { failure } = this.state;
    if (failure?.path !== path) return children;
    return <ErrorBox error={failure.error} onRetry={() => this.setState({ failure: undefined })} />;
  }
}
