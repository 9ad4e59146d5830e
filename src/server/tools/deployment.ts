// Deploys a tool: builds what was uploaded, compares its requests with those of the live version, stores it as a new version, and releases it.
import { createHash } from "node:crypto";
import { ToolError, unavailable } from "../../host/index.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import { type Actor, appendAudit } from "../records/audit/audit.ts";
import { emitEvents, type WebhookEvent } from "../records/events/webhooks.ts";
import { checkStoredBytes } from "../records/tenants/stored-bytes.ts";
import { findTenant, type TenantRecord, touchTenant } from "../records/tenants/tenants.ts";
import {
  findRelease,
  MAX_RELEASED,
  type ReleasedVersions,
  type ReleaseRecord,
  storeRelease,
} from "../records/tools/releases.ts";
import {
  countVersions,
  decideVersion,
  findLatest,
  findVersion,
  insertVersion,
  listToolNames,
  type ToolVersionRecord,
  type VersionFiles,
  type VersionSettings,
} from "../records/tools/tool-versions.ts";
import { changeExclusively } from "../records/write-lock.ts";
import {
  type BuildTenant,
  type BuildUploadDependencies,
  type BuiltUpload,
  buildUpload,
  grantsFor,
} from "./build-upload.ts";
import type { Deployment } from "./deployment-request.ts";
import { compareRequests, type RequestDiff } from "./requested-access.ts";
import { LIVE } from "./tenant-tools.ts";

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

interface DeploymentDependencies extends BuildUploadDependencies {
  readonly db: Db;
  readonly kind: DatabaseKind;
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

/** Who deploys, and whether this caller may approve what a version requests. */
export interface Deployer {
  readonly actor: Actor;
  readonly keyId: string;
  readonly mayApprove: boolean;
}

/** A version that a deployment stores, unless the latest one is the same. */
interface Candidate
  extends Pick<ToolVersionRecord, "toolName" | "contentHash" | "definition" | "settings" | "language"> {
  readonly bundleHash: string;
  readonly files: VersionFiles;
}

function toCandidate(
  { inspection, language, source, bundle }: BuiltUpload,
  tenant: TenantRecord,
  { isolateLifetime, limits }: Pick<Deployment, "isolateLifetime" | "limits">,
): Candidate {
  const { definition } = inspection;
  const grant = [...grantsFor(tenant, inspection)];
  const settings: VersionSettings = { grant, isolateLifetime, ...(limits === undefined ? {} : { limits }) };
  const contentHash = sha256(JSON.stringify([source, bundle.sha256, definition, settings]));
  const files = { source: JSON.stringify(source), bundle: JSON.stringify(bundle) };
  return {
    toolName: definition.name,
    contentHash,
    definition,
    settings,
    language,
    bundleHash: bundle.sha256,
    files,
  };
}

/** The version that a deployment has stored or found. */
interface StoredVersion {
  readonly version: ToolVersionRecord;
  readonly isKnown: boolean;
  readonly isNewlyApproved: boolean;
}

/** What a version requests beyond the live one, and whether the deployer approves it. */
interface VersionApproval extends Omit<Deployer, "mayApprove"> {
  readonly approves: boolean;
  readonly requests: RequestDiff;
}

/** Stores a candidate as a new version, or finds that the latest version is the same. @throws {ToolError} QUOTA_EXCEEDED */
async function storeVersion(
  transaction: Db,
  tenant: TenantRecord,
  { files, ...candidate }: Candidate,
  { actor, keyId, approves, requests }: VersionApproval,
): Promise<StoredVersion> {
  const { toolName, contentHash, definition } = candidate;
  const latest = await findLatest(transaction, { tenantId: tenant.id, toolName });
  if (latest?.contentHash === contentHash) {
    const version = approves ? await approveKnown(transaction, tenant.id, latest, { actor, keyId }) : latest;
    const isNewlyApproved = version.state === "ready" && latest.state === "waiting_for_approval";
    return { version, isKnown: true, isNewlyApproved };
  }
  const newBytes = [files.source, files.bundle, JSON.stringify(definition)]
    .map((text) => Buffer.byteLength(text))
    .reduce((sum, size) => sum + size, 0);
  await checkCounts(transaction, tenant, latest, newBytes);
  const needsApproval = requests.added.length > 0;
  const version = await insertVersion(
    transaction,
    tenant.id,
    {
      ...candidate,
      version: (latest?.version ?? 0) + 1,
      createdBy: keyId,
      state: !needsApproval || approves ? "ready" : "waiting_for_approval",
    },
    files,
  );
  return { version, isKnown: false, isNewlyApproved: needsApproval && version.state === "ready" };
}

/** What a deployment has changed, apart from its version. */
interface DeploymentChange {
  readonly actor: Actor;
  readonly requests: RequestDiff;
  readonly alias: string | null;
  readonly release: ReleaseRecord | undefined;
  readonly isReleaseChanged: boolean;
}

/** Records what a deployment has changed, for the audit log and for webhooks. */
async function recordDeployment(
  transaction: Db,
  tenantId: string,
  { version, isKnown }: StoredVersion,
  { actor, requests, alias, release, isReleaseChanged }: DeploymentChange,
): Promise<void> {
  const { toolName: tool, contentHash, state } = version;
  await appendAudit(transaction, {
    actor,
    tenantId,
    action: "version.deployed",
    target: `${tool}@${version.version}`,
    details: { contentHash, state, requests, isKnown, release: release?.versions ?? null, alias },
  });
  const data = { tool, version: version.version, contentHash };
  const events: WebhookEvent[] = [];
  if (!isKnown) events.push({ tenantId, type: "version.deployed", data });
  if (!isKnown && state === "waiting_for_approval")
    events.push({ tenantId, type: "version.waiting_for_approval", data: { ...data, requests } });
  if (release !== undefined && isReleaseChanged)
    events.push({ tenantId, type: "release.changed", data: { tool, alias, versions: release.versions } });
  await emitEvents(transaction, events);
}

/**
 * Deploys a tool for a tenant.
 * @throws {ToolError} BUNDLE_FAILED and others of `Glovebox.inspectTool`; CAPABILITY_DENIED, QUOTA_EXCEEDED
 */
export async function deploy(
  dependencies: DeploymentDependencies,
  uploader: BuildTenant,
  upload: Deployment,
  { actor, keyId, mayApprove }: Deployer,
): Promise<DeployedVersion> {
  const { db, kind } = dependencies;
  const { limits, isolateLifetime, alias, canaryPercent, approve, ...code } = upload;
  const { id: tenantId } = uploader;
  const built = await buildUpload(dependencies, uploader, code);
  return await changeExclusively({ db, kind }, async (transaction) => {
    const tenant = await findTenant(transaction, tenantId);
    if (tenant === undefined) throw unavailable("tenant_deleted", "The tenant was deleted meanwhile");
    const candidate = toCandidate(built, tenant, { limits, isolateLifetime });
    const key = { tenantId, toolName: candidate.toolName };
    const live = await findLiveVersion(transaction, key);
    const requests = compareRequests(live, candidate, [dependencies.limits, tenant.policy.limits]);
    const approves = approve && mayApprove;
    const stored = await storeVersion(transaction, tenant, candidate, { actor, keyId, approves, requests });
    const { version } = stored;
    const before = alias === null ? undefined : await findRelease(transaction, { ...key, alias });
    const release =
      alias === null || version.state !== "ready"
        ? undefined
        : await storeRelease(
            transaction,
            { ...key, alias },
            {
              versions: withCanary(before?.versions, version.version, canaryPercent),
              reason: "set",
              changedBy: keyId,
              rollback: before?.rollback ?? null,
            },
          );
    await touchTenant(transaction, tenantId);
    const isReleaseChanged = release?.revision !== before?.revision;
    await recordDeployment(transaction, tenantId, stored, { actor, requests, alias, release, isReleaseChanged });
    return { ...stored, requests, release, warnings: built.inspection.warnings };
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
