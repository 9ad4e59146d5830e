// The console: signs in, and shows the page that the address names.
import { effect } from "@preact/signals";
import { type JSX, render } from "preact";
import { useEffect } from "preact/hooks";
import { ApprovalsPage } from "./pages/approvals/approvals.tsx";
import { AuditPage } from "./pages/audit.tsx";
import { CallPage } from "./pages/calls/call.tsx";
import { CallsPage } from "./pages/calls/calls.tsx";
import { KeysPage } from "./pages/keys.tsx";
import { FleetPage } from "./pages/operation/fleet.tsx";
import { OverviewPage } from "./pages/operation/overview.tsx";
import { UsagePage } from "./pages/operation/usage.tsx";
import { WorkersPage } from "./pages/operation/workers.tsx";
import { RunPage } from "./pages/runs/run.tsx";
import { RunsPage } from "./pages/runs/runs.tsx";
import { SchedulesPage } from "./pages/schedules.tsx";
import { SecretsPage } from "./pages/secrets.tsx";
import { SessionsPage } from "./pages/sessions.tsx";
import { SettingsPage } from "./pages/settings.tsx";
import { SignInPage } from "./pages/sign-in.tsx";
import { TenantsPage } from "./pages/tenants.tsx";
import { NewToolPage } from "./pages/tools/draft.tsx";
import { ToolPage } from "./pages/tools/tool.tsx";
import { ToolsPage } from "./pages/tools/tools.tsx";
import { TriggersPage } from "./pages/triggers.tsx";
import { ValuesPage } from "./pages/values.tsx";
import { WebhooksPage } from "./pages/webhooks.tsx";
import { ErrorBox, Loading } from "./parts/controls.tsx";
import { PLATFORM_LINKS, tenantLinks, titleOf } from "./parts/frame/navigation-links.ts";
import { PageBoundary } from "./parts/frame/page-boundary.tsx";
import { applyTheme, Shell } from "./parts/frame/shell.tsx";
import { address, navigate, returnToKeptAddress, startRouter, urlOf } from "./state/router.ts";
import { can, isFramed, loadMe, me, watchExpiry } from "./state/session.ts";

function TenantPage({ tenantId, path }: { readonly tenantId: string; readonly path: readonly string[] }): JSX.Element {
  const [page, name] = path;
  switch (page) {
    case undefined:
      return <Home tenantId={tenantId} />;
    case "calls":
      return name === undefined ? (
        <CallsPage key={tenantId} tenantId={tenantId} />
      ) : (
        <CallPage key={name} tenantId={tenantId} id={name} />
      );
    case "runs":
      return name === undefined ? (
        <RunsPage key={tenantId} tenantId={tenantId} />
      ) : (
        <RunPage key={name} tenantId={tenantId} id={name} />
      );
    case "tools":
      return name === undefined ? (
        <ToolsPage tenantId={tenantId} />
      ) : (
        <ToolPage key={`${tenantId} ${name}`} tenantId={tenantId} name={name} />
      );
    case "new-tool":
      return <NewToolPage tenantId={tenantId} />;
    case "approvals":
      return <ApprovalsPage tenantId={tenantId} />;
    case "triggers":
      return <TriggersPage tenantId={tenantId} />;
    case "usage":
      return <UsagePage tenantId={tenantId} />;
    case "schedules":
      return <SchedulesPage tenantId={tenantId} />;
    case "webhooks":
      return <WebhooksPage tenantId={tenantId} />;
    case "secrets":
      return <SecretsPage tenantId={tenantId} />;
    case "kv":
      return <ValuesPage tenantId={tenantId} />;
    case "keys":
      return <KeysPage tenantId={tenantId} />;
    case "audit":
      return <AuditPage tenantId={tenantId} />;
    case "settings":
      return <SettingsPage key={tenantId} tenantId={tenantId} />;
    default:
      return <NoPage />;
  }
}

/** The page without a name: the overview, or the first page for which the key has the scope. */
function Home({ tenantId }: { readonly tenantId: string | undefined }): JSX.Element {
  const links = tenantId === undefined ? PLATFORM_LINKS : tenantLinks(tenantId);
  const first = can("usage:read") ? undefined : links.find(([, , scope]) => can(scope));
  const url = first === undefined ? undefined : urlOf(first[1]);
  useEffect(() => {
    if (url !== undefined) navigate(url, { isReplaced: true });
  }, [url]);
  return url === undefined ? <OverviewPage key={tenantId} tenantId={tenantId} /> : <Loading />;
}

function PlatformPage({ page }: { readonly page: string | undefined }): JSX.Element {
  switch (page) {
    case undefined:
      return <Home tenantId={undefined} />;
    case "calls":
      return <CallsPage tenantId={undefined} />;
    case "tenants":
      return <TenantsPage />;
    case "workers":
      return <WorkersPage />;
    case "fleet":
      return <FleetPage />;
    case "keys":
      return <KeysPage tenantId={undefined} />;
    case "audit":
      return <AuditPage tenantId={undefined} />;
    default:
      return <NoPage />;
  }
}

function NoPage(): JSX.Element {
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <p>
        Go to the <a href={urlOf([])}>overview</a>.
      </p>
    </div>
  );
}

function Page(): JSX.Element {
  const [first, second, ...rest] = address.value.path;
  const own = me.value?.tenantId ?? undefined;
  if (first === "sessions") return <SessionsPage />;
  if (first === "t" && second !== undefined) return <TenantPage tenantId={second} path={rest} />;
  // The key of a tenant has no pages of the platform.
  if (own !== undefined) return first === undefined ? <TenantPage tenantId={own} path={[]} /> : <NoPage />;
  return <PlatformPage page={first} />;
}

/** An embedded view has no sign-in of its own: the page around it gets the token. */
const ExpiredView = (): JSX.Element => (
  <main class="empty">
    <div role="alert">
      <h1>This view's link has expired</h1>
      <p>Reload the page that contains it.</p>
    </div>
  </main>
);

function App({ failure }: { readonly failure: unknown }): JSX.Element {
  if (failure !== undefined) return <ErrorBox error={failure} onRetry={() => location.reload()} />;
  if (me.value === undefined) return <Loading />;
  if (me.value === null) return isFramed ? <ExpiredView /> : <SignInPage />;
  return (
    <Shell>
      <PageBoundary path={address.value.path.join("/")}>
        <Page />
      </PageBoundary>
    </Shell>
  );
}

const root = document.querySelector("#app") as HTMLElement;
applyTheme();
startRouter();
watchExpiry();
effect(() => {
  document.title = titleOf(address.value.path);
});
render(<App failure={undefined} />, root);
loadMe().then(
  () => {
    if (me.value !== null) returnToKeptAddress();
  },
  (failure: unknown) => render(<App failure={failure} />, root),
);
