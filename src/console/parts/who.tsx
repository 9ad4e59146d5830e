// Names the key that has done something. The API has its id only, and names can change.

import { computed, effect, type Signal, signal } from "@preact/signals";
import type { ApiKey } from "glovebox/client";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { toVisibleText } from "../../host/util/visible-text.ts";
import { collect } from "../state/collect.ts";
import { type OwnerProps, prefixOf } from "../state/props.ts";
import { can, client, isPlatform, me } from "../state/session.ts";

const MAX_KEYS = 1_000;
/** Time in ms before the keys are loaded again for an id that is not among them. */
const RELOAD_MS = 30_000;

const names: Signal<ReadonlyMap<string, string>> = signal(new Map());
const loadedAt = new Map<string, number>();
const user = computed(() => me.value?.keyId);
// The next user may not be allowed to read the names that this one has loaded. It can have signed in in another tab.
effect(() => {
  void user.value;
  names.value = new Map();
  loadedAt.clear();
});

/** Loads the names of an owner's keys. Without the right to read them, ids stay as they are. */
async function load(owner: OwnerProps): Promise<void> {
  const path = `${prefixOf(owner)}/keys`;
  if (!can("keys:read") || (owner.tenantId === undefined && !isPlatform.value)) return;
  if (performance.now() - (loadedAt.get(path) ?? Number.NEGATIVE_INFINITY) < RELOAD_MS) return;
  loadedAt.set(path, performance.now());
  const reader = user.value;
  const keys = await collect(client.list<ApiKey>(path), MAX_KEYS).catch(() => []);
  if (user.value !== reader) return;
  names.value = new Map([...names.value, ...keys.map(({ id, name }) => [id, name] as const)]);
}

interface WhoProps extends OwnerProps {
  /** Id of a key, with or without `key:` before it, or the name of another actor, such as `server`. */
  readonly id: string;
  /** Shows the id next to the name: several keys can have one name. */
  readonly hasId?: boolean;
}

export function Who({ id, tenantId, hasId = false }: WhoProps): JSX.Element {
  const keyId = id.replace(/^key:/, "");
  const name = names.value.get(keyId);
  useEffect(() => {
    if (name !== undefined || keyId === "") return;
    void load({ tenantId });
    // Operators of the platform act in tenants, too.
    if (tenantId !== undefined) void load({ tenantId: undefined });
  }, [keyId, tenantId, name]);
  if (name === undefined) return <span>{toVisibleText(id)}</span>;
  return (
    <span class="phrase" title={id}>
      {toVisibleText(name)}
      {hasId ? <span class="faint"> {keyId}</span> : null}
    </span>
  );
}
