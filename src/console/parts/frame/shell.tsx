// The frame of every page: navigation, choice of the tenant, theme, and the command palette.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { collect } from "../../state/collect.ts";
import { useResource } from "../../state/resource.ts";
import { address, navigate, urlOf } from "../../state/router.ts";
import { can, client, endsAt, isEmbedded, isPlatform, isUnreachable, me, signOut } from "../../state/session.ts";
import { readStored, store } from "../../state/storage.ts";
import { Time } from "../controls.tsx";
import { type NavLink, PLATFORM_LINKS, tenantLinks } from "./navigation-links.ts";
import { MAX_FOUND, Palette } from "./palette.tsx";

const THEMES = ["auto", "light", "dark"] as const;

const THEME_KEY = "glovebox-theme";

/** Uses the theme of an embedding page, or the one that the user has chosen, or that of the system. */
export function applyTheme(): void {
  showTheme(firstTheme);
}

const storedTheme = (): string => readStored("localStorage", THEME_KEY) ?? "auto";

/** The theme that the page begins with. Its URL has no theme any more when the user goes on. */
const firstTheme = new URLSearchParams(location.search).get("theme") ?? storedTheme();

function showTheme(wanted: string): void {
  if (wanted === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
}

function ThemeButton(): JSX.Element {
  const [theme, setTheme] = useState<string>(firstTheme);
  const change = (): void => {
    const next = THEMES[(THEMES.indexOf(theme as "auto") + 1) % THEMES.length] ?? "auto";
    store("localStorage", THEME_KEY, next);
    setTheme(next);
    showTheme(next);
  };
  return (
    <button type="button" class="button quiet" onClick={change}>
      Theme: {theme}
    </button>
  );
}

/** Returns the tenant that the page is about: the one in its path, or the one of the key. */
export function tenantOfPage(): string | undefined {
  const [first, second] = address.value.path;
  if (first === "t") return second;
  return me.value?.tenantId ?? undefined;
}

export function Shell({ children }: { readonly children: ComponentChildren }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const [hasPalette, setPalette] = useState(false);
  const tenantId = tenantOfPage();
  const here = address.value.path.join("/");
  useEffect(() => setOpen(false), [here]);
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      setPalette(true);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <div class="shell">
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header class="top">
        <button
          type="button"
          class="button quiet menu"
          aria-expanded={isOpen}
          aria-controls="navigation"
          onClick={() => setOpen(!isOpen)}
        >
          ☰ <span class="hidden">Menu</span>
        </button>
        <a class="brand" href={urlOf([])}>
          Glovebox
        </a>
        {isPlatform.value ? <TenantChoice tenantId={tenantId} /> : <span class="faint">{tenantId}</span>}
        <span class="spacer" />
        <button type="button" class="button plain palette-button" onClick={() => setPalette(true)}>
          Go to… <kbd>Ctrl K</kbd>
        </button>
      </header>
      <nav id="navigation" class={isOpen ? "open" : ""} aria-label="Pages">
        {tenantId === undefined ? null : <NavGroup title={tenantId} links={tenantLinks(tenantId)} here={here} />}
        {isPlatform.value ? <NavGroup title="Platform" links={PLATFORM_LINKS} here={here} /> : null}
        <div class="nav-end">
          <ThemeButton />
          {isEmbedded ? null : (
            <>
              <a class="button quiet" href={urlOf(["sessions"])}>
                Your sessions
              </a>
              <a class="button quiet" href="/reference" target="_blank" rel="noreferrer">
                API reference
              </a>
              <button type="button" class="button quiet" onClick={() => void signOut()}>
                Sign out
              </button>
            </>
          )}
        </div>
      </nav>
      <main id="content" tabIndex={-1}>
        {isUnreachable.value ? (
          <div class="error-box" role="alert">
            <strong>No connection</strong> The server does not answer. What you see may be old; the page tries again by
            itself.
          </div>
        ) : null}
        <ExpiryNotice />
        {children}
      </main>
      {hasPalette ? <Palette tenantId={tenantId} onClose={() => setPalette(false)} /> : null}
    </div>
  );
}

/** Says that the session ends soon, so that what was typed can be saved. */
function ExpiryNotice(): JSX.Element | null {
  const at = endsAt.value;
  if (at === undefined) return null;
  return (
    <p class="notice" role="status">
      {isEmbedded ? "This view's link expires at " : "Your session ends at "}
      <Time at={at} />. Save your changes; to go on,{" "}
      {isEmbedded ? "reload the page that contains this view." : "sign in again."}
    </p>
  );
}

function NavGroup({
  title,
  links,
  here,
}: {
  readonly title: string;
  readonly links: readonly NavLink[];
  readonly here: string;
}): JSX.Element {
  const shown = links.filter(([, , scope]) => can(scope));
  return (
    <section>
      <h2>{title}</h2>
      <ul>
        {shown.map(([text, path]) => (
          <li key={text}>
            <a href={urlOf(path)} aria-current={isHere(path, here) ? "page" : undefined}>
              {text}
            </a>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** A page below a list belongs to the list. */
const isHere = (path: readonly string[], here: string): boolean => {
  const own = path.join("/");
  return own === here || (path.length > 0 && path.length !== 2 && here.startsWith(`${own}/`));
};

function TenantChoice({ tenantId }: { readonly tenantId: string | undefined }): JSX.Element {
  const tenants = useResource("tenant choice", () => collect(client.tenants(), MAX_FOUND), 30_000);
  const ids = new Set([...(tenantId === undefined ? [] : [tenantId]), ...(tenants.value ?? []).map(({ id }) => id)]);
  const choose = (id: string): void => {
    const [first, , ...rest] = address.value.path;
    // The same list of the other tenant, but not the same call or tool.
    const page = first === "t" ? rest.slice(0, 1) : [];
    navigate(id === "" ? urlOf([]) : urlOf(["t", id, ...page]));
  };
  return (
    <select aria-label="Tenant" value={tenantId ?? ""} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">All tenants</option>
      {[...ids].toSorted().map((id) => (
        <option key={id} value={id}>
          {id}
        </option>
      ))}
    </select>
  );
}
