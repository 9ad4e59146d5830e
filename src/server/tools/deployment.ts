// Deploys a tool: builds what was uploaded, compares its requests with those of the live version, stores it as a new version, and releases it.
import { createHash } from "node:crypto";
import * as z from "zod";
import {
  createGlovebox,
  type Glovebox,
  type ToolDefinition,
  ToolError,
  type ToolInspection,
  unavailable,
} from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import { type Actor, appendAudit } from "../records/audit.ts";
import {
  findRelease,
  type Release,
  type ReleaseChange,
  type ReleasedVersions,
  storeRelease,
} from "../records/releases.ts";
import { LimitsSchema } from "../records/tenant-policy.ts";
import { findTenant, type Tenant, touchTenant } from "../records/tenants.ts";
import {
  findLatest,
  findVersion,
  insertVersion,
  listToolNames,
  type ToolVersion,
  type VersionSettings,
} from "../records/tool-versions.ts";
import { storedBytes } from "../records/usage.ts";
import { emitEvents, type ServerEvent } from "../records/webhooks.ts";
import { changeExclusively } from "../records/write-lock.ts";
import { type Files, unpackArchive } from "./archive.ts";
import type { PackageInstaller } from "./packages.ts";
import { compareRequests, type RequestDiff } from "./requests.ts";
import { LIVE } from "./tenant-tools.ts";

export const ALIAS_PATTERN = /^[a-z][a-z0-9_-]{0,62}$/;
const MAX_FILES = 500;

const uploadFields = {
  /** Name of the tool if its code does not export one. */
  name: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,128}$/)
    .optional(),
  language: z.enum(["javascript", "typescript", "python"]).optional(),
  limits: LimitsSchema.optional(),
  isolateLifetime: z.enum(["call", "tool", "session"]).default("call"),
  /** The release that runs the new version from now on; null for none. */
  alias: z.string().regex(ALIAS_PATTERN).nullable().default(LIVE),
  /** Share in percent of the calls that the new version gets; the rest stays on the versions that the alias runs now. */
  canaryPercent: z.number().gt(0).max(100).default(100),
  /** Approves what the version requests. Needs the scope `tools:approve`. */
  approve: z.boolean().default(false),
};

export const DeploymentSchema = z.union([
  z.strictObject({ source: z.string().min(1), ...uploadFields }),
  z.strictObject({
    files: z
      .record(z.string().min(1).max(512), z.string())
      .refine((files) => Object.keys(files).length <= MAX_FILES, { error: `Expected at most ${MAX_FILES} files` }),
    entry: z.string().min(1).max(512).optional(),
    ...uploadFields,
  }),
  z.strictObject({
    /** A .tar.gz or .zip file in base64. */
    archive: z.base64().min(1),
    entry: z.string().min(1).max(512).optional(),
    ...uploadFields,
  }),
]);
export type Deployment = z.infer<typeof DeploymentSchema>;

export interface Deployed {
  readonly version: ToolVersion;
  /** Whether the same upload was stored before; no new version was made then. */
  readonly isKnown: boolean;
  readonly requests: RequestDiff;
  /** The versions that the alias runs now; undefined if nothing was released. */
  readonly release: Release | undefined;
  readonly warnings: readonly string[];
}

export interface DeploymentParts {
  readonly box: Glovebox;
  /** Undefined if uploads may not install packages. */
  readonly installer: PackageInstaller | undefined;
  readonly db: Db;
  readonly kind: DatabaseKind;
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** @throws {ToolError} CAPABILITY_DENIED for a capability that the tenant's tools cannot have */
function grantsFor({ policy }: Tenant, { definition }: ToolInspection): readonly string[] {
  const requested = Object.keys(definition.capabilities ?? {});
  const allowed: readonly string[] = policy.capabilities;
  const denied = requested.filter((name) => !allowed.includes(name) && name !== "log");
  if (denied.length === 0) return requested.filter((name) => name !== "log");
  throw new ToolError(
    "CAPABILITY_DENIED",
    `The tool requests ${denied.join(", ")}, which tools of this tenant cannot have (policy.capabilities)`,
    { details: { denied } },
  );
}

/** Returns the versions that an alias runs when a new one gets its share. */
export function withCanary(before: ReleasedVersions | undefined, version: number, percent: number): ReleasedVersions {
  const others = (before ?? []).filter((one) => one.version !== version);
  if (percent === 100 || others.length === 0) return [{ version, weight: 100 }];
  const total = others.reduce((sum, { weight }) => sum + weight, 0);
  const shared = others.map((one) => ({ version: one.version, weight: (one.weight / total) * (100 - percent) }));
  return [...shared, { version, weight: percent }];
}

/** Sets a release, unless it runs the same versions already: a rollback goes back to something else. */
async function releaseVersion(
  db: Db,
  key: Parameters<typeof storeRelease>[1],
  before: Release | undefined,
  change: ReleaseChange,
): Promise<Release> {
  const isSame = before !== undefined && JSON.stringify(before.versions) === JSON.stringify(change.versions);
  return isSame ? before : await storeRelease(db, key, change);
}

/** Returns the definition of the live version with the largest weight; undefined if nothing is live. */
export async function findLiveDefinition(
  db: Db,
  key: { readonly tenantId: string; readonly toolName: string },
): Promise<ToolDefinition | undefined> {
  const live = await findRelease(db, { ...key, alias: LIVE });
  const version = live?.versions.toSorted((a, b) => b.weight - a.weight)[0]?.version;
  return version === undefined ? undefined : (await findVersion(db, key, version))?.definition;
}

/** Checks how many tools, versions and bytes the tenant has. @throws {ToolError} QUOTA_EXCEEDED */
async function checkCounts(db: Db, tenant: Tenant, latest: ToolVersion | undefined, newBytes: number): Promise<void> {
  const { maxTools, maxVersions, maxStoredBytes } = tenant.policy;
  const stored = await storedBytes(db, tenant.id);
  if (stored + newBytes > maxStoredBytes) {
    const message = `The tenant's code takes ${stored} bytes, and this upload ${newBytes}; policy.maxStoredBytes is ${maxStoredBytes}`;
    throw new ToolError("QUOTA_EXCEEDED", message);
  }
  if (latest === undefined) {
    const tools = await listToolNames(db, tenant.id, { limit: maxTools + 1 });
    if (tools.length < maxTools) return;
    throw new ToolError("QUOTA_EXCEEDED", `The tenant has ${tools.length} tools; policy.maxTools is ${maxTools}`);
  }
  if (latest.version < maxVersions) return;
  throw new ToolError(
    "QUOTA_EXCEEDED",
    `The tool ${JSON.stringify(latest.toolName)} has ${latest.version} versions; policy.maxVersions is ${maxVersions}`,
  );
}

/**
 * Deploys a tool for a tenant.
 * @param mayApprove whether the caller may approve requests
 * @throws {ToolError} BUNDLE_FAILED and others of `Glovebox.inspectTool`; CAPABILITY_DENIED, QUOTA_EXCEEDED
 */
export async function deploy(
  { box, installer, db, kind }: DeploymentParts,
  tenantId: string,
  upload: Deployment,
  { actor, keyId, mayApprove }: { readonly actor: Actor; readonly keyId: string; readonly mayApprove: boolean },
): Promise<Deployed> {
  const { name, language, limits, isolateLifetime, alias, canaryPercent, approve, ...uploaded } = upload;
  const source = await toSource(uploaded);
  const input = { ...source, ...(name === undefined ? {} : { name }), ...(language === undefined ? {} : { language }) };
  const inspection = needsPackages(source)
    ? await inspectWithPackages(installer, { ...input, files: source.files })
    : await box.inspectTool(input, { tenantId });
  const { definition, bundle } = inspection;
  const toolName = definition.name;
  return await changeExclusively({ db, kind }, async (transaction) => {
    const tenant = await findTenant(transaction, tenantId);
    if (tenant === undefined) throw unavailable("tenant_deleted", "The tenant was deleted meanwhile");
    const key = { tenantId, toolName };
    const grant = [...grantsFor(tenant, inspection)];
    const settings: VersionSettings = { grant, isolateLifetime, ...(limits === undefined ? {} : { limits }) };
    const isPython = bundle.entry.endsWith(".py");
    const stored = isPython ? toPythonFiles(source) : source;
    const contentHash = sha256(JSON.stringify([stored, bundle.sha256, definition, settings]));
    const latest = await findLatest(transaction, key);
    const liveDefinition = await findLiveDefinition(transaction, key);
    const requests = compareRequests(liveDefinition, definition);
    const isApproved = requests.added.length === 0 || (approve && mayApprove);
    const isKnown = latest?.contentHash === contentHash;
    const files = { source: JSON.stringify(stored), bundle: JSON.stringify(bundle) };
    const newBytes = Buffer.byteLength(files.source) + Buffer.byteLength(files.bundle);
    if (!isKnown) await checkCounts(transaction, tenant, latest, newBytes);
    const version = isKnown
      ? (latest as ToolVersion)
      : await insertVersion(
          transaction,
          tenantId,
          {
            ...{ toolName, version: (latest?.version ?? 0) + 1, contentHash, definition, settings, createdBy: keyId },
            state: isApproved ? "ready" : "waiting_for_approval",
            language: isPython ? "python" : "javascript",
            bundleHash: bundle.sha256,
          },
          files,
        );
    const isReleased = version.state === "ready" && alias !== null;
    const before = alias === null ? undefined : await findRelease(transaction, { ...key, alias });
    const release = isReleased
      ? await releaseVersion(transaction, { ...key, alias: alias as string }, before, {
          versions: withCanary(before?.versions, version.version, canaryPercent),
          ...{ reason: "set", changedBy: keyId, rollback: before?.rollback ?? null },
        })
      : undefined;
    await touchTenant(transaction, tenantId);
    await appendAudit(transaction, {
      ...{ actor, tenantId, action: "version.deployed", target: `${toolName}@${version.version}` },
      details: { contentHash, state: version.state, requests, isKnown, release: release?.versions ?? null, alias },
    });
    const data = { tool: toolName, version: version.version, contentHash };
    const events: ServerEvent[] = [];
    if (!isKnown) events.push({ tenantId, type: "version.deployed", data });
    if (version.state === "waiting_for_approval" && !isKnown)
      events.push({ tenantId, type: "version.waiting_for_approval", data: { ...data, requests } });
    if (release !== undefined && release !== before)
      events.push({ tenantId, type: "release.changed", data: { tool: toolName, alias, versions: release.versions } });
    await emitEvents(transaction, events);
    return { version, isKnown, requests, release, warnings: inspection.warnings };
  });
}

type Source = { readonly source: string } | { readonly files: Files; readonly entry?: string | undefined };

/** Returns what an upload contains: an archive becomes the files in it. @throws {ToolError} PARAM_INVALID */
async function toSource(
  uploaded: Source | { readonly archive: string; readonly entry?: string | undefined },
): Promise<Source> {
  if (!("archive" in uploaded)) return uploaded;
  const { archive, ...rest } = uploaded;
  return { ...rest, files: await unpackArchive(Buffer.from(archive, "base64")) };
}

function needsPackages(source: Source): source is Extract<Source, { readonly files: Files }> {
  return "files" in source && "package.json" in source.files && "package-lock.json" in source.files;
}

/**
 * Builds a tool with its packages. The bundle contains them, so that they are needed only here.
 * @throws {ToolError} as {@link PackageInstaller.install} and `Glovebox.inspectTool`; CAPABILITY_DENIED if no packages may be installed
 */
async function inspectWithPackages(
  installer: PackageInstaller | undefined,
  { files, ...input }: { readonly files: Files; readonly entry?: string | undefined },
): Promise<ToolInspection> {
  if (installer === undefined) {
    const message =
      "The upload has a package-lock.json, but the operator of this server has not allowed packages (options.packages). Deploy with `glovebox deploy`, which bundles the packages, or leave the file out";
    throw new ToolError("CAPABILITY_DENIED", message);
  }
  const packagesDir = await installer.install(files);
  const { "package-lock.json": _, ...sources } = files;
  // Its own, because the packages are those of this upload.
  await using builder = await createGlovebox({ bundler: { packagesDir }, cache: false, workers: { max: 1 } });
  return await builder.inspectTool({ ...input, files: sources });
}

/** Returns the files of a Python tool: a single source is `tool.py`. */
function toPythonFiles(
  source: { readonly source: string } | { readonly files: object; readonly entry?: string | undefined },
): object {
  return "source" in source ? { files: { "tool.py": source.source }, entry: "tool.py" } : source;
}
