// Deploys a tool: builds what was uploaded, compares its requests with those of the live version, stores it as a new version, and releases it.
import { createHash } from "node:crypto";
import { type PartialLimits, ToolError, unavailable } from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import { type Actor, appendAudit } from "../records/audit.ts";
import {
  findRelease,
  MAX_RELEASED,
  type ReleasedVersions,
  type ReleaseRecord,
  storeRelease,
} from "../records/releases.ts";
import { checkStoredBytes } from "../records/stored-bytes.ts";
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
import type { Deployment } from "./deployment-request.ts";
import { grantsFor, type InspectUploadDependencies, inspect, toPythonFiles, toSource } from "./inspect-upload.ts";
import { compareRequests, type RequestDiff } from "./requested-access.ts";
import { LIVE } from "./tenant-tools.ts";
import { applySourceMap, parseUploadedSourceMap } from "./uploaded-source-map.ts";

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

interface DeploymentDependencies extends InspectUploadDependencies {
  readonly db: Db;
  readonly kind: DatabaseKind;
  /** Limits of every call of the server. */
  readonly limits: PartialLimits;
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

/** Returns the versions that an alias runs when a new one gets its share. @throws {ToolError} QUOTA_EXCEEDED for one version too many */
export function withCanary(before: ReleasedVersions | undefined, version: number, percent: number): ReleasedVersions {
  const others = (before ?? []).filter((one) => one.version !== version);
  if (percent === 100 || others.length === 0) return [{ version, weight: 100 }];
  const total = others.reduce((sum, { weight }) => sum + weight, 0);
  if (others.length >= MAX_RELEASED)
    throw new ToolError(
      "QUOTA_EXCEEDED",
      `The alias runs ${others.length} versions, which is the most. Let it run fewer versions first, or deploy without a canary`,
    );
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
            toolName,
            version: (latest?.version ?? 0) + 1,
            contentHash,
            definition,
            settings,
            createdBy: keyId,
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
            reason: "set",
            changedBy: keyId,
            rollback: before?.rollback ?? null,
          },
        )
      : undefined;
    await touchTenant(transaction, tenantId);
    await appendAudit(transaction, {
      actor,
      tenantId,
      action: "version.deployed",
      target: `${toolName}@${version.version}`,
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
    actor,
    tenantId,
    action: "version.approved",
    target: `${toolName}@${version}`,
    details: {},
  });
  return (await findVersion(transaction, key, version)) as ToolVersionRecord;
}
