// Deploys a tool: builds what was uploaded, compares its requests with those of the live version, stores it as a new version, and releases it.
import { createHash } from "node:crypto";
import * as z from "zod";
import {
  createGlovebox,
  type Glovebox,
  type PartialLimits,
  ToolError,
  type ToolInspection,
  unavailable,
} from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import { type Actor, appendAudit } from "../records/audit.ts";
import { findRelease, type ReleasedVersions, type ReleaseRecord, storeRelease } from "../records/releases.ts";
import { checkStoredBytes } from "../records/stored-bytes.ts";
import { LimitsSchema } from "../records/tenant-policy.ts";
import { findTenant, type TenantRecord, touchTenant } from "../records/tenants.ts";
import {
  countVersions,
  decideVersion,
  findLatest,
  findVersion,
  insertVersion,
  listToolNames,
  type ToolVersionRecord,
  type VersionSettings,
} from "../records/tool-versions.ts";
import { emitEvents, type WebhookEvent } from "../records/webhooks.ts";
import { changeExclusively } from "../records/write-lock.ts";
import { type Files, unpackArchive } from "./archive.ts";
import type { PackageInstaller } from "./packages.ts";
import { compareRequests, type RequestDiff } from "./requested-access.ts";
import { LIVE } from "./tenant-tools.ts";
import {
  applySourceMap,
  MAX_SOURCE_MAP_LENGTH,
  parseUploadedSourceMap,
  toOriginalError,
  type UploadedSourceMap,
} from "./uploaded-source-map.ts";

export const ALIAS_PATTERN = /^[a-z][a-z0-9_-]{0,62}$/;
const MAX_FILES = 500;

const ToolNameSchema = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,128}$/, {
  error: "Expected 1 to 128 of A-Z a-z 0-9 _ - ., other than . and ..",
});

const uploadFields = {
  /** Name of the tool, whatever name its code exports. Default: the exported name, or else `defaultName`. */
  name: ToolNameSchema.optional(),
  /** Name of the tool if its code exports none. Default: one from its entry file or its content. */
  defaultName: ToolNameSchema.optional(),
  language: z.enum(["javascript", "typescript", "python"]).optional(),
  limits: LimitsSchema.optional(),
  isolateLifetime: z.enum(["call", "tool", "session"]).default("call"),
  /** The release that runs the new version from now on; null for none. */
  alias: z
    .string()
    .regex(ALIAS_PATTERN, { error: "Expected 1 to 63 of a-z 0-9 _ -, beginning with a letter" })
    .nullable()
    .default(LIVE),
  /** Share in percent of the calls that the new version gets; the rest stays on the versions that the alias runs now. */
  canaryPercent: z.number().gt(0).max(100).default(100),
  /** Approves what the version requests, also that of a known version that waits. Needs the scope `tools:approve`. */
  approve: z.boolean().default(false),
};

/** `script` runs JavaScript as the body of a sloppy-mode function of `input` and `ctx`, which returns its last value. Default: `module`. */
export const SourceModeSchema = z.enum(["module", "script"]);

/** The fields of a deployment that hold the tool. */
const CONTENTS = ["source", "files", "archive"] as const;
const countContents = (input: unknown): number =>
  CONTENTS.filter((name) => typeof input === "object" && input !== null && Object.hasOwn(input, name)).length;

export const DeploymentSchema = z.union(
  [
    z.strictObject({
      source: z.string().min(1),
      mode: SourceModeSchema.optional(),
      /** Source map of `source` as JSON, if that is a bundle. Its paths are relative to the tool's folder. Logs and errors then name the author's files. */
      sourceMap: z.string().min(2).max(MAX_SOURCE_MAP_LENGTH).optional(),
      ...uploadFields,
    }),
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
  ],
  { error: ({ input }) => (countContents(input) === 1 ? undefined : "Expected one of source, files and archive") },
);
export type Deployment = z.infer<typeof DeploymentSchema>;

export interface DeployedVersion {
  readonly version: ToolVersionRecord;
  /** Whether the same upload was stored before; no new version was made then. */
  readonly isKnown: boolean;
  /** Whether this deployment has approved what the version requests. */
  readonly isNewlyApproved: boolean;
  readonly requests: RequestDiff;
  /** The versions that the alias runs now; undefined if nothing was released. */
  readonly release: ReleaseRecord | undefined;
  readonly warnings: readonly string[];
}

export interface DeploymentDependencies {
  readonly glovebox: Glovebox;
  /** Undefined if uploads may not install packages. */
  readonly installer: PackageInstaller | undefined;
  readonly db: Db;
  readonly kind: DatabaseKind;
  /** Limits of every call of the server. */
  readonly limits: PartialLimits;
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** @throws {ToolError} CAPABILITY_DENIED for a capability that the tenant's tools cannot have */
function grantsFor({ policy }: TenantRecord, { definition }: ToolInspection): readonly string[] {
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

/** Returns the live version with the largest weight; undefined if nothing is live. */
export async function findLiveVersion(
  db: Db,
  key: { readonly tenantId: string; readonly toolName: string },
): Promise<ToolVersionRecord | undefined> {
  const live = await findRelease(db, { ...key, alias: LIVE });
  const version = live?.versions.toSorted((a, b) => b.weight - a.weight)[0]?.version;
  return version === undefined ? undefined : await findVersion(db, key, version);
}

/** Checks how many tools, versions and bytes the tenant has. @throws {ToolError} QUOTA_EXCEEDED */
async function checkCounts(
  db: Db,
  tenant: TenantRecord,
  latest: ToolVersionRecord | undefined,
  newBytes: number,
): Promise<void> {
  const { maxTools, maxVersions } = tenant.policy;
  await checkStoredBytes(db, tenant.id, { what: "The upload", bytes: newBytes });
  if (latest === undefined) {
    const tools = await listToolNames(db, tenant.id, { limit: maxTools + 1 });
    if (tools.length < maxTools) return;
    throw new ToolError("QUOTA_EXCEEDED", `The tenant has ${tools.length} tools; policy.maxTools is ${maxTools}`);
  }
  const { toolName } = latest;
  const versions = await countVersions(db, { tenantId: tenant.id, toolName });
  if (versions < maxVersions) return;
  throw new ToolError(
    "QUOTA_EXCEEDED",
    `The tool ${JSON.stringify(toolName)} has ${versions} versions; policy.maxVersions is ${maxVersions}. Delete old versions first`,
  );
}

/**
 * Reads the definition of an upload. Code that fails when it is loaded cannot be deployed: that is an error of the upload, not of a call.
 * @param map the source map of the upload: errors name the author's files
 */
async function inspect(
  { glovebox, installer }: Pick<DeploymentDependencies, "glovebox" | "installer">,
  tenantId: string,
  source: Source,
  named: Pick<Deployment, "name" | "defaultName" | "language">,
  map: UploadedSourceMap | undefined,
): Promise<ToolInspection> {
  try {
    return needsPackages(source)
      ? await inspectWithPackages(installer, { ...source, ...named })
      : await glovebox.inspectTool({ ...source, ...named }, { tenantId });
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    const error =
      thrown.code === "TOOL_FAILED"
        ? new ToolError("BUNDLE_FAILED", `The tool fails when it is loaded: ${thrown.message}`, {
            ...{ details: { ...thrown.details }, cause: thrown },
          })
        : thrown;
    throw map === undefined ? error : toOriginalError(error, map);
  }
}

/**
 * Deploys a tool for a tenant.
 * @param mayApprove whether the caller may approve requests
 * @throws {ToolError} BUNDLE_FAILED and others of `Glovebox.inspectTool`; CAPABILITY_DENIED, QUOTA_EXCEEDED
 */
export async function deploy(
  { glovebox, installer, db, kind, limits: serverLimits }: DeploymentDependencies,
  tenantId: string,
  upload: Deployment,
  { actor, keyId, mayApprove }: { readonly actor: Actor; readonly keyId: string; readonly mayApprove: boolean },
): Promise<DeployedVersion> {
  const { name, defaultName, language, limits, isolateLifetime, alias, canaryPercent, approve, ...uploaded } = upload;
  const map = "sourceMap" in upload ? upload.sourceMap : undefined;
  const uploadedMap = map === undefined ? undefined : parseUploadedSourceMap(map);
  const source = await toSource(uploaded);
  const inspection = await inspect(
    { glovebox, installer },
    tenantId,
    source,
    { name, defaultName, language },
    uploadedMap,
  );
  const { definition } = inspection;
  const bundle =
    uploadedMap === undefined
      ? inspection.bundle
      : { ...inspection.bundle, sourceMap: applySourceMap(inspection.bundle.sourceMap, uploadedMap) };
  const toolName = definition.name;
  if (toolName === "." || toolName === "..") {
    const message = `The tool's name is "${toolName}", which no URL can contain. Deploy it with another name`;
    throw new ToolError("PARAM_INVALID", message);
  }
  return await changeExclusively({ db, kind }, async (transaction) => {
    const tenant = await findTenant(transaction, tenantId);
    if (tenant === undefined) throw unavailable("tenant_deleted", "The tenant was deleted meanwhile");
    const key = { tenantId, toolName };
    const grant = [...grantsFor(tenant, inspection)];
    const settings: VersionSettings = { grant, isolateLifetime, ...(limits === undefined ? {} : { limits }) };
    const isPython = bundle.entry.endsWith(".py");
    const stored = isPython ? toPythonFiles(source) : map === undefined ? source : { ...source, sourceMap: map };
    const contentHash = sha256(JSON.stringify([stored, bundle.sha256, definition, settings]));
    const latest = await findLatest(transaction, key);
    const next = { definition, settings, language: isPython ? "python" : "javascript" } as const;
    const live = await findLiveVersion(transaction, key);
    const requests = compareRequests(live, next, [serverLimits, tenant.policy.limits]);
    const isApproved = requests.added.length === 0 || (approve && mayApprove);
    const isKnown = latest?.contentHash === contentHash;
    const files = { source: JSON.stringify(stored), bundle: JSON.stringify(bundle) };
    const newBytes = [files.source, files.bundle, JSON.stringify(definition)]
      .map((text) => Buffer.byteLength(text))
      .reduce((sum, size) => sum + size, 0);
    if (!isKnown) await checkCounts(transaction, tenant, latest, newBytes);
    const version = isKnown
      ? approve && mayApprove
        ? await approveKnown(transaction, tenantId, latest as ToolVersionRecord, { actor, keyId })
        : (latest as ToolVersionRecord)
      : await insertVersion(
          transaction,
          tenantId,
          {
            ...{ toolName, version: (latest?.version ?? 0) + 1, contentHash, definition, settings, createdBy: keyId },
            state: isApproved ? "ready" : "waiting_for_approval",
            language: next.language,
            bundleHash: bundle.sha256,
          },
          files,
        );
    const isReleased = version.state === "ready" && alias !== null;
    const before = alias === null ? undefined : await findRelease(transaction, { ...key, alias });
    const release = isReleased
      ? await storeRelease(
          transaction,
          { ...key, alias: alias as string },
          {
            versions: withCanary(before?.versions, version.version, canaryPercent),
            ...{ reason: "set", changedBy: keyId, rollback: before?.rollback ?? null },
          },
        )
      : undefined;
    await touchTenant(transaction, tenantId);
    await appendAudit(transaction, {
      ...{ actor, tenantId, action: "version.deployed", target: `${toolName}@${version.version}` },
      details: { contentHash, state: version.state, requests, isKnown, release: release?.versions ?? null, alias },
    });
    const data = { tool: toolName, version: version.version, contentHash };
    const events: WebhookEvent[] = [];
    if (!isKnown) events.push({ tenantId, type: "version.deployed", data });
    if (version.state === "waiting_for_approval" && !isKnown)
      events.push({ tenantId, type: "version.waiting_for_approval", data: { ...data, requests } });
    if (release !== undefined && release.revision !== before?.revision)
      events.push({ tenantId, type: "release.changed", data: { tool: toolName, alias, versions: release.versions } });
    await emitEvents(transaction, events);
    const wasWaiting = isKnown && latest?.state === "waiting_for_approval";
    const isNewlyApproved = version.state === "ready" && (wasWaiting || (!isKnown && requests.added.length > 0));
    return { version, isKnown, isNewlyApproved, requests, release, warnings: inspection.warnings };
  });
}

/** Approves a known version, if it waits for that. Returns it as it is then. */
async function approveKnown(
  transaction: Db,
  tenantId: string,
  known: ToolVersionRecord,
  { actor, keyId }: { readonly actor: Actor; readonly keyId: string },
): Promise<ToolVersionRecord> {
  const { toolName, version } = known;
  const key = { tenantId, toolName };
  if (!(await decideVersion(transaction, key, version, { state: "ready", decidedBy: keyId }))) return known;
  await appendAudit(transaction, {
    ...{ actor, tenantId, action: "version.approved", target: `${toolName}@${version}`, details: {} },
  });
  return (await findVersion(transaction, key, version)) as ToolVersionRecord;
}

type Source =
  | { readonly source: string; readonly mode?: z.infer<typeof SourceModeSchema> | undefined }
  | { readonly files: Files; readonly entry?: string | undefined };

/** Returns what an upload contains: an archive becomes the files in it. @throws {ToolError} PARAM_INVALID */
async function toSource(
  uploaded: Source | { readonly archive: string; readonly entry?: string | undefined },
): Promise<Source> {
  if ("source" in uploaded) {
    const { source, mode } = uploaded;
    return mode === "script" ? { source, mode } : { source };
  }
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
