// The console: signs in, and shows the page that the address names.
import { effect } from "@preact/signals";
import { type JSX, render } from "preact";
import { useEffect } from "preact/hooks";
import { Approvals } from "./pages/approvals/approvals.tsx";
import { Audit } from "./pages/audit.tsx";
import { Call } from "./pages/calls/call.tsx";
import { Calls } from "./pages/calls/calls.tsx";
import { Keys } from "./pages/keys.tsx";
import { Fleet } from "./pages/operation/fleet.tsx";
import { Overview } from "./pages/operation/overview.tsx";
import { Usage } from "./pages/operation/usage.tsx";
import { Workers } from "./pages/operation/workers.tsx";
import { Run } from "./pages/runs/run.tsx";
import { Runs } from "./pages/runs/runs.tsx";
import { Schedules } from "./pages/schedules.tsx";
import { Secrets } from "./pages/secrets.tsx";
import { Sessions } from "./pages/sessions.tsx";
import { Settings } from "./pages/settings.tsx";
import { SignIn } from "./pages/sign-in.tsx";
import { Tenants } from "./pages/tenants.tsx";
import { NewTool } from "./pages/tools/draft.tsx";
import { Tool } from "./pages/tools/tool.tsx";
import { Tools } from "./pages/tools/tools.tsx";
import { Triggers } from "./pages/triggers.tsx";
import { Values } from "./pages/values.tsx";
import { Webhooks } from "./pages/webhooks.tsx";
import { ErrorBox, Loading } from "./parts/controls.tsx";
import { PLATFORM_LINKS, tenantLinks, titleOf } from "./parts/frame/navigation-links.ts";
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
        <Calls key={tenantId} tenantId={tenantId} />
      ) : (
        <Call key={name} tenantId={tenantId} id={name} />
      );
    case "runs":
      return name === undefined ? (
        <Runs key={tenantId} tenantId={tenantId} />
      ) : (
        <Run key={name} tenantId={tenantId} id={name} />
      );
    case "tools":
      return name === undefined ? (
        <Tools tenantId={tenantId} />
      ) : (
        <Tool key={`${tenantId} ${name}`} tenantId={tenantId} name={name} />
      );
    case "new-tool":
      return <NewTool tenantId={tenantId} />;
    case "approvals":
      return <Approvals tenantId={tenantId} />;
    case "triggers":
      return <Triggers tenantId={tenantId} />;
    case "usage":
      return <Usage tenantId={tenantId} />;
    case "schedules":
      return <Schedules tenantId={tenantId} />;
    case "webhooks":
      return <Webhooks tenantId={tenantId} />;
    case "secrets":
      return <Secrets tenantId={tenantId} />;
    case "kv":
      return <Values tenantId={tenantId} />;
    case "keys":
      return <Keys tenantId={tenantId} />;
    case "audit":
      return <Audit tenantId={tenantId} />;
    case "settings":
      return <Settings key={tenantId} tenantId={tenantId} />;
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
  return url === undefined ? <Overview key={tenantId} tenantId={tenantId} /> : <Loading />;
}

function PlatformPage({ page }: { readonly page: string | undefined }): JSX.Element {
  switch (page) {
    case undefined:
      return <Home tenantId={undefined} />;
    case "calls":
      return <Calls tenantId={undefined} />;
    case "tenants":
      return <Tenants />;
    case "workers":
      return <Workers />;
    case "fleet":
      return <Fleet />;
    case "keys":
      return <Keys tenantId={undefined} />;
    case "audit":
      return <Audit tenantId={undefined} />;
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
  if (first === "sessions") return <Sessions />;
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
  if (me.value === null) return isFramed ? <ExpiredView /> : <SignIn />;
  return (
    <Shell>
      <Page />
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
