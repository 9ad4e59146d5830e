// The command palette: finds pages, tenants and tools by name, and opens them.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { collect, collectTools } from "../../state/collect.ts";
import { useResource } from "../../state/resource.ts";
import { navigate, urlOf } from "../../state/router.ts";
import { can, client, isPlatform } from "../../state/session.ts";
import { Dialog } from "../forms/dialog.tsx";
import { type NavLink, PLATFORM_LINKS, tenantLinks } from "./navigation-links.ts";

interface PaletteItem {
  readonly text: string;
  readonly url: string;
}

export function Palette({
  tenantId,
  onClose,
}: {
  readonly tenantId: string | undefined;
  readonly onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState("");
  const [index, setIndex] = useState(0);
  const items = usePaletteItems(tenantId, text.trim());
  const words = text.toLowerCase().split(/\s+/);
  const found = items.filter((item) => words.every((word) => item.text.toLowerCase().includes(word))).slice(0, 12);
  const go = (item: PaletteItem | undefined): void => {
    if (item === undefined) return;
    onClose();
    navigate(item.url);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) {
      event.preventDefault();
      setIndex((before) => Math.max(0, Math.min(found.length - 1, before + step)));
    }
    if (event.key === "Enter") go(found[index]);
  };
  return (
    <Dialog title="Go to" onClose={onClose}>
      <input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette"
        aria-activedescendant={found.length === 0 ? undefined : `palette-${index}`}
        aria-label="Page, tool, tenant, or id of a call"
        placeholder="Page, tool, tenant, or id of a call"
        value={text}
        onKeyDown={onKey}
        onInput={(event) => {
          setText(event.currentTarget.value);
          setIndex(0);
        }}
      />
      <div id="palette" role="listbox" aria-label="Results" class="palette">
        {found.map((item, at) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the input handles the keys
          // biome-ignore lint/a11y/useFocusableInteractive: the input keeps the focus and names the active option
          <div key={item.url} id={`palette-${at}`} role="option" aria-selected={at === index} onClick={() => go(item)}>
            {item.text}
          </div>
        ))}
      </div>
      {found.length === 0 ? <p class="faint">Nothing matches.</p> : null}
    </Dialog>
  );
}

/** Names that the palette and the choice of a tenant know. Others can be written in full. */
export const MAX_FOUND = 1_000;

function usePaletteItems(tenantId: string | undefined, text: string): readonly PaletteItem[] {
  const tools = useResource(`palette ${tenantId}`, async () =>
    tenantId === undefined || !can("tools:read") ? [] : await collectTools(tenantId, MAX_FOUND),
  );
  const tenants = useResource("palette tenants", async () =>
    isPlatform.value && can("tenants:read") ? await collect(client.tenants(), MAX_FOUND) : [],
  );
  const toItems = (links: readonly NavLink[], owner: string): readonly PaletteItem[] =>
    links
      .filter(([, , scope]) => can(scope))
      .map(([name, path]) => ({ text: `${name} of ${owner}`, url: urlOf(path) }));
  const links = [
    ...(tenantId === undefined ? [] : toItems(tenantLinks(tenantId), tenantId)),
    ...(isPlatform.value ? toItems(PLATFORM_LINKS, "the platform") : []),
  ];
  const call =
    tenantId !== undefined && can("calls:read") && /^call_[0-9a-z]{26}(?:\.\d+)*$/.test(text)
      ? [{ text, url: urlOf(["t", tenantId, "calls", text]) }]
      : [];
  return [
    ...call,
    ...links,
    ...(tools.value ?? []).map(({ name }) => ({
      text: `Tool ${name}`,
      url: urlOf(["t", tenantId ?? "", "tools", name]),
    })),
    ...(tenants.value ?? []).map(({ id }) => ({ text: `Tenant ${id}`, url: urlOf(["t", id]) })),
    ...namedItems(
      tenantId,
      text,
      (tools.value ?? []).map(({ name }) => name),
      (tenants.value ?? []).map(({ id }) => id),
    ),
  ];
}

/** Pages of what the text names exactly, where there are more names than the palette knows. */
function namedItems(
  tenantId: string | undefined,
  text: string,
  tools: readonly string[],
  tenants: readonly string[],
): readonly PaletteItem[] {
  const items: PaletteItem[] = [];
  if (tenantId !== undefined && tools.length >= MAX_FOUND && !tools.includes(text) && /^[\w.-]{1,128}$/.test(text))
    items.push({ text: `Open the tool ${text}`, url: urlOf(["t", tenantId, "tools", text]) });
  if (tenants.length >= MAX_FOUND && !tenants.includes(text) && /^[a-z0-9._-]{1,63}$/.test(text))
    items.push({ text: `Open the tenant ${text}`, url: urlOf(["t", text]) });
  return items;
}
