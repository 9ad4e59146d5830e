// Decides whether a call may run, which version it runs, and whether it waits for an approval first.
import { type Glovebox, type ToolResult, unavailable } from "../../host/index.ts";
import { mayWait, sha256Of, toApprovalText } from "../approvals/approval-rule.ts";
import type { Admission, ApprovalService, NeededApproval } from "../approvals/approval-service.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { type Actor, appendAudit } from "../records/audit/audit.ts";
import { findUndelivered } from "../records/calls/approvals.ts";
import { withContents } from "../records/calls/call-contents.ts";
import { type CallRow, findCall } from "../records/calls/calls.ts";
import type { SessionHome } from "../records/calls/session-homes.ts";
import { findTenant, type TenantRecord } from "../records/tenants/tenants.ts";
import { listAlias } from "../records/tools/releases.ts";
import { findLatest, findVersion } from "../records/tools/tool-versions.ts";
import { changeExclusively } from "../records/write-lock.ts";
import { LIVE, type TenantTools } from "../tools/tenant-tools.ts";
import type { CallCaller, CallRequest } from "./call-request.ts";
import { checkActive, checkSame, toFailedResult } from "./call-results.ts";
import type { SessionHomes } from "./replicas/session-homes.ts";

/** Maximum number of tools that the error for an unknown one names. */
const MAX_NAMED = 20;

type ApprovalOrigin = Parameters<ApprovalService["request"]>[3];

export interface ServerCallAdmissionDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Glovebox;
  readonly tools: TenantTools;
  readonly approvals: ApprovalService;
  readonly sessions: SessionHomes;
  readonly onError: (error: unknown) => void;
}

/** A call that may run here, has failed before it began, waits, or belongs to a session that another replica has. */
export type Admitted =
  | Admission
  | { readonly failed: ToolResult }
  | { readonly waiting: CallRow }
  | { readonly home: SessionHome };

export class ServerCallAdmission {
  readonly #dependencies: ServerCallAdmissionDependencies;

  constructor(dependencies: ServerCallAdmissionDependencies) {
    this.#dependencies = dependencies;
  }

  /** Registers the tool of a call, and decides which version runs and whether it waits. Never rejects because of the call itself. */
  async admit(
    row: CallRow,
    request: CallRequest,
    caller: CallCaller,
    origin: ApprovalOrigin = "api",
  ): Promise<Admitted> {
    const { tenant } = caller;
    let admission: Admission;
    try {
      checkActive(tenant);
      admission = await this.versionOf(row, tenant);
    } catch (thrown) {
      return { failed: toFailedResult(row, thrown, this.#dependencies.onError) };
    }
    const { needed } = admission;
    const { approvedBy } = request;
    if ((needed === undefined || approvedBy !== undefined) && row.mode !== "async") {
      try {
        const home = await this.#dependencies.sessions.claim(row);
        if (home !== undefined) return { home };
      } catch (thrown) {
        return { failed: toFailedResult(row, thrown, this.#dependencies.onError) };
      }
    }
    if (needed === undefined) return admission;
    if (approvedBy !== undefined && row.mode !== "async") {
      await this.#recordApproval(row, request, needed, approvedBy);
      // The digest, because a tool that is deleted and deployed again has the same numbers of versions.
      return { toolVersion: needed.version, toolDigest: needed.toolDigest };
    }
    const stored: CallRow = { ...row, mode: "async", input: toApprovalText(request.input, request.toolName) };
    const { call, isKnown } = await this.#dependencies.approvals.request(stored, tenant, needed, origin);
    if (isKnown) {
      const known = origin === "mcp" ? call : checkSame(call, row);
      return { waiting: await withContents(this.#dependencies.database.db, known) };
    }
    if (approvedBy === undefined) return { waiting: call };
    const decision = { isApproved: true, reason: null, actor: approvedBy, decidedBy: caller.keyId };
    const decided = await this.#dependencies.approvals.decide(tenant, call.approval_id ?? "", decision);
    return { waiting: decided?.call ?? call };
  }

  /** Chooses the version that a call runs, and decides whether it needs an approval. @throws {ToolError} TOOL_UNAVAILABLE */
  async versionOf(
    row: Pick<CallRow, "tenant_id" | "tool_name" | "alias" | "tool_version" | "session_id">,
    tenant: TenantRecord,
  ): Promise<Admission> {
    const { tools } = this.#dependencies;
    await tools.ensureTool(tenant.id, tenant.revision, row.tool_name);
    const version = row.tool_version ?? undefined;
    // A version can be called by its number although nothing of its tool is released.
    if (version === undefined) await this.#checkKnown(tenant.id, row.tool_name);
    const session = row.session_id === null ? {} : { sessionId: row.session_id };
    // The alias that every call has, and no version: the Glovebox chooses.
    const isFree = version === undefined && row.alias === LIVE;
    const toolVersion = isFree
      ? undefined
      : await tools.choose(tenant.id, row.tool_name, { alias: row.alias, version, ...session });
    return this.#dependencies.approvals.check(tenant, row.tool_name, { toolVersion, ...session });
  }

  /** Names the tools that can be called, as the Glovebox of this process knows only those that were called in it. */
  async #checkKnown(tenantId: string, toolName: string): Promise<void> {
    const { glovebox, database } = this.#dependencies;
    if (glovebox.router.registry.get(toolName, tenantId) !== undefined) return;
    const shown = toolName.slice(0, 128);
    const latest = await findLatest(database.db, { tenantId, toolName });
    if (latest !== undefined) {
      const { version, state } = latest;
      const hints = {
        waiting_for_approval: `version ${version} waits for approval`,
        ready: `version ${version} can be released`,
        denied: `version ${version} was denied`,
      };
      const hint = hints[state];
      const message = `The tool ${JSON.stringify(shown)} has no live version; ${hint}`;
      throw unavailable("not_found", message, { details: { toolName: shown } });
    }
    const releases = await listAlias(database.db, { tenantId, alias: LIVE }, { limit: MAX_NAMED });
    const known = releases.map((release) => release.toolName);
    const hint = known.length === 0 ? "no tools are registered" : `known tools: ${known.join(", ")}`;
    const message = `There is no tool named ${JSON.stringify(shown)}; ${hint}`;
    throw unavailable("not_found", message, { details: { toolName: shown, known } });
  }

  /**
   * Chooses the version that a claimed call runs, and lets the call wait if it needs an approval that it does not have.
   * @returns the call with its version; undefined if it waits
   */
  async admitQueued(row: CallRow): Promise<CallRow | undefined> {
    if (row.approval_id !== null) return row;
    const { database, glovebox, approvals } = this.#dependencies;
    const tenant = await findTenant(database.db, row.tenant_id);
    if (tenant?.state !== "active") return row;
    const { needed, toolVersion } = await this.versionOf(row, tenant);
    if (needed !== undefined) {
      await approvals.park(await withContents(database.db, row), tenant, needed);
      return undefined;
    }
    const { release } = glovebox.router.registry.get(row.tool_name, tenant.id) ?? {};
    const session = row.session_id === null ? {} : { sessionId: row.session_id };
    const chosen = toolVersion ?? release?.choose(row.tool_name, session);
    return chosen === undefined ? row : { ...row, tool_version: Number(chosen) };
  }

  /** Returns the call that a caller over MCP has made before with the same arguments, and that waits, or has ended while it was away. */
  async findUndelivered(
    request: CallRequest,
    { tenant, keyId }: CallCaller,
  ): Promise<{ readonly waiting: CallRow } | undefined> {
    await this.#dependencies.tools.ensureTool(tenant.id, tenant.revision, request.toolName).catch(() => {});
    const tool = this.#dependencies.glovebox.router.registry.get(request.toolName, tenant.id);
    if (tool === undefined || mayWait(tenant.policy, tool) === undefined) return undefined;
    const { db } = this.#dependencies.database;
    const inputSha256 = sha256Of(toApprovalText(request.input, request.toolName));
    const key = { tenantId: tenant.id, toolName: request.toolName, inputSha256, requestedBy: keyId };
    const found = await findUndelivered(db, key);
    const call = found && (await findCall(db, tenant.id, found.call_id));
    return call && { waiting: call };
  }

  /** Returns whether the version of a tool that a call has run says that it may run twice. */
  async isIdempotent(row: CallRow): Promise<boolean> {
    if (row.tool_version === null) return false;
    // From the database, because the Glovebox may be closed already.
    const key = { tenantId: row.tenant_id, toolName: row.tool_name };
    const version = await findVersion(this.#dependencies.database.db, key, row.tool_version);
    // A tool that was deleted and deployed again has the same numbers of versions.
    if (version === undefined || version.createdAt > (row.started_at ?? 0)) return false;
    return version.definition.annotations?.idempotentHint === true;
  }

  /** Records that the caller has approved its own call, which runs at once. */
  async #recordApproval(row: CallRow, request: CallRequest, needed: NeededApproval, actor: Actor): Promise<void> {
    await changeExclusively(this.#dependencies.database, (transaction) =>
      appendAudit(transaction, {
        actor,
        tenantId: row.tenant_id,
        action: "approval.approved",
        target: row.id,
        details: {
          callId: row.id,
          tool: row.tool_name,
          version: Number(needed.version),
          inputSha256: sha256Of(toApprovalText(request.input, request.toolName)),
        },
      }),
    );
  }
}
