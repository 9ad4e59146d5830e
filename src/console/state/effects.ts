// Describes the effects of a tool in short texts: the hints of its author, and what its capabilities allow.

interface Definition {
  readonly description?: unknown;
  readonly annotations?: { readonly [hint: string]: unknown } | undefined;
  readonly capabilities?: { readonly [name: string]: unknown } | undefined;
}

export interface Effect {
  readonly text: string;
  /** Whether it is what a person should look at first. */
  readonly isRisk: boolean;
}

const MAX_HOSTS = 5;

function describeCapability(name: string, value: unknown): string {
  if (name === "kv") return "stores values";
  if (name === "tools") return "calls other tools";
  const hosts = Array.isArray(value) ? value.filter((host): host is string => typeof host === "string") : [];
  if (name !== "fetch") return `uses ${name}`;
  if (hosts.length === 0) return "sends requests";
  const more = hosts.length > MAX_HOSTS ? ` and ${hosts.length - MAX_HOSTS} more` : "";
  return `sends requests to ${hosts.slice(0, MAX_HOSTS).join(", ")}${more}`;
}

export function describeEffects({ annotations = {}, capabilities = {} }: Definition): readonly Effect[] {
  const effects: Effect[] = [];
  if (annotations.readOnlyHint === true) effects.push({ text: "only reads", isRisk: false });
  if (annotations.destructiveHint === true) effects.push({ text: "destructive", isRisk: true });
  if (annotations.idempotentHint === true) effects.push({ text: "safe to repeat", isRisk: false });
  if (annotations.openWorldHint === true) effects.push({ text: "says that it acts on other systems", isRisk: true });
  for (const [name, value] of Object.entries(capabilities)) {
    if (value === false || name === "log") continue;
    effects.push({ text: describeCapability(name, value), isRisk: name === "fetch" });
  }
  if (Object.keys(capabilities).length === 0) effects.push({ text: "uses no capabilities", isRisk: false });
  return effects;
}
