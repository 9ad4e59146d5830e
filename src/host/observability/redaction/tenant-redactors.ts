// Redactors for what an operator sees of a tenant's calls. They also replace the values of the tenant's own secrets.
import type { TenantPolicy } from "../../tenants/tenant-policies.ts";
import { MAX_SECRET_BYTES, MIN_SECRET_BYTES } from "./call-redactor.ts";
import { type RedactOptions, ValueRedactor } from "./value-redactor.ts";

/** Returns whether a secret is configured as text. Values that a function returns are registered by the call that uses them. */
function isKnown(value: unknown): value is string {
  if (typeof value !== "string") return false;
  const bytes = Buffer.byteLength(value);
  return bytes >= MIN_SECRET_BYTES && bytes <= MAX_SECRET_BYTES;
}

export class TenantRedactors {
  readonly #options: RedactOptions;
  /** For calls whose tenant is not known. */
  readonly #common: ValueRedactor;
  readonly #known = new WeakMap<TenantPolicy, ValueRedactor>();

  /** @throws {ToolError} PARAM_INVALID */
  constructor(options: RedactOptions = {}) {
    this.#options = options;
    this.#common = new ValueRedactor(options);
  }

  of(tenant: TenantPolicy | undefined): ValueRedactor {
    if (tenant === undefined) return this.#common;
    const known = this.#known.get(tenant);
    if (known !== undefined) return known;
    const values: { [label: string]: string } = {};
    for (const [label, { value }] of Object.entries(tenant.secrets)) if (isKnown(value)) values[label] = value;
    const redactor = new ValueRedactor({ ...this.#options, values: { ...values, ...this.#options.values } });
    this.#known.set(tenant, redactor);
    return redactor;
  }
}
