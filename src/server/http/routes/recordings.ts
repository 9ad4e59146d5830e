// Routes of recordings: download one, replay it, and rehearse a version with many of them.
import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { type CallRecording, type ReplayedCall, toJson } from "../../../host/index.ts";
import { createId } from "../../ids.ts";
import { findRecording, listRecorded } from "../../records/calls/call-contents.ts";
import { findCall } from "../../records/calls/calls.ts";
import { findVersion, readVersionFile } from "../../records/tools/tool-versions.ts";
import type { App, AppEnv, ServerDependencies } from "../context.ts";
import { notFound, RequestError } from "../request-error.ts";
import { respondWithJson } from "../responses.ts";
import { addRoute, json } from "../route.ts";
import { CallIdSchema, TimeSchema } from "../schemas/common.ts";
import { TenantParamsSchema } from "./tenants.ts";
import { ToolParamsSchema, VersionParamsSchema } from "./versions.ts";

const CallParamsSchema = TenantParamsSchema.extend({ call: CallIdSchema });

const DAY_MS = 86_400_000;
const VERDICTS = ["identical", "different", "failed", "diverged", "not_compared"] as const;
const JsonSchema = z.any().describe("Any JSON value");

const ChangesSchema = z.array(
  z.strictObject({
    path: z.string().describe("JSON Pointer"),
    kind: z.enum(["added", "removed", "changed"]),
    before: z.string().optional(),
    after: z.string().optional(),
  }),
);

const ChunksSchema = z
  .strictObject({
    recorded: z.int().describe("Number of recorded chunks"),
    replayed: z.int().describe("Number of chunks of the replay"),
    first: z.int().optional().describe("Index of the first chunk that differs, if the recording has it"),
    changes: ChangesSchema.optional().describe("Places in which the list of chunks differs, at most 50"),
  })
  .optional()
  .describe("How the chunks of a streamed call differ from the recorded ones");

export const NewReplaySchema = z
  .strictObject({
    version: z.int().min(1).optional().describe("Default: the recorded version"),
    input: JsonSchema.optional().describe("Default: the recorded input"),
  })
  .openapi("NewReplay");
export const ReplaySchema = z
  .strictObject({
    verdict: z.enum(VERDICTS),
    match: z.enum(["position", "arguments"]).describe("How the answers of capabilities were found"),
    recorded: JsonSchema.describe("Outcome in the recording: `{ output }` or `{ error }`"),
    divergence: z
      .strictObject({ position: z.number(), expected: z.string(), actual: z.string() })
      .optional()
      .describe("Where the call left its recording"),
    changes: ChangesSchema.optional().describe("Places in which the output differs from the recorded one, at most 50"),
    chunks: ChunksSchema,
    missing: z.array(z.string()).optional().describe("Recorded requests that the replay has not made, at most 50"),
    result: z.looseObject({ success: z.boolean() }).describe("The result of the replay"),
  })
  .openapi("Replay");

export const NewRehearsalSchema = z
  .strictObject({
    version: z.int().min(1).describe("The version to try"),
    since: TimeSchema.optional().describe("Time in ms since 1970 of the oldest call. Default: 7 days ago"),
    sample: z.int().min(1).max(5_000).default(500).describe("Maximum number of calls, the newest first"),
  })
  .openapi("NewRehearsal");
const PercentilesSchema = z.strictObject({ p50: z.number(), p95: z.number() });
const ResourceSchema = z.strictObject({ before: PercentilesSchema, after: PercentilesSchema });
export const RehearsalSchema = z
  .strictObject({
    replayed: z.int(),
    identical: z.int(),
    different: z.int(),
    diverged: z.int(),
    failed: z.int(),
    skipped: z.int().describe("Recordings that were not replayed: the sum of skippedFor"),
    skippedFor: z
      .strictObject({ recording: z.int(), limit: z.int(), chunks: z.int() })
      .describe(
        "recording: it is incomplete or invalid. limit: it could not run for a minute, because of a limit such as a quota, or of the server. chunks: it is of an earlier version, which did not record chunks",
      ),
    groups: z.array(
      z.strictObject({
        verdict: z.enum(["different", "failed", "diverged"]),
        summary: z.string(),
        count: z.int(),
        callIds: z.array(z.string()),
        changes: ChangesSchema.optional(),
        chunks: ChunksSchema,
      }),
    ),
    resources: z.strictObject({
      cpuMs: ResourceSchema,
      heapBytes: ResourceSchema,
      peakBytes: ResourceSchema,
      executeMs: ResourceSchema.describe(
        "Duration; of the replays an estimate: the waits of the recorded calls, and the CPU time of the replays",
      ),
    }),
  })
  .openapi("Rehearsal");

const toShown = ({ verdict, match, recorded, divergence, changes, chunks, missing, result }: ReplayedCall): object => ({
  verdict,
  match,
  recorded: "output" in recorded ? { output: JSON.parse(recorded.output) } : recorded,
  ...(divergence === undefined ? {} : { divergence }),
  ...(changes === undefined ? {} : { changes }),
  ...(chunks === undefined ? {} : { chunks }),
  ...(missing === undefined ? {} : { missing }),
  result: result.success ? { ...result, output: toJson(result.output) } : result,
});

/** Code runs, so the tenant must be active. */
function checkActive(c: Context<AppEnv>): void {
  if (c.get("tenant").state !== "active") throw new RequestError("FORBIDDEN", "The tenant is suspended");
}

export function addRecordingRoutes(app: App, dependencies: ServerDependencies): void {
  const { glovebox, calls, tools, database, slots } = dependencies;
  const { db } = database;

  /** Takes one of the slots of the tenant, and of the key, for a replay. */
  const admit = async (c: Context<AppEnv>): Promise<Disposable> => {
    const slot = await slots.acquire(c.get("tenant"), createId("call"), c.req.raw.signal, c.get("principal").keyId);
    return { [Symbol.dispose]: () => slot.release() };
  };

  const recordingOf = async (tenantId: string, callId: string): Promise<CallRecording> => {
    await calls.flush();
    const text = await findRecording(db, tenantId, callId);
    if (text !== undefined) return JSON.parse(text) as CallRecording;
    const isKnown = (await findCall(db, tenantId, callId)) !== undefined;
    throw isKnown ? new RequestError("NOT_FOUND", "The call has no recording") : notFound("call", callId);
  };
  /** @throws {RequestError} CONFLICT if the number of the recorded version is now one of other code: the tool was deleted, and deployed again */
  const checkSameCode = async (tenantId: string, recording: CallRecording, version: number): Promise<void> => {
    const found = await findVersion(db, { tenantId, toolName: recording.toolName }, version);
    if (found?.language !== "javascript" || found.bundleHash === recording.bundle) return;
    const message = `The code that the call ran was deleted with its tool. Version ${version} is another one now: name the version to replay the call on`;
    throw new RequestError("CONFLICT", message);
  };
  /** Registers the version that is to run. */
  const load = async (c: Context<AppEnv>, toolName: string, version: number): Promise<void> => {
    const { id, revision } = c.get("tenant");
    await tools.ensureTool(id, revision, toolName);
    await tools.choose(id, toolName, { version });
  };

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}/recording",
    {
      summary: "Returns the recording of a call",
      description:
        "A recording has everything that reached the tool, and the seed of its random numbers. See the guide on replay.",
      params: CallParamsSchema,
      responses: { 200: json(z.looseObject({ format: z.string() }), "The recording") },
    },
    async (c, { params }) => respondWithJson(c, await recordingOf(c.get("tenant").id, params.call)),
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/calls/{call}/replays",
    {
      summary: "Runs a recorded call again without its capabilities",
      description:
        "No request leaves the server and nothing is stored. With another version or input, answers are found by the arguments of each capability call.",
      params: CallParamsSchema,
      body: NewReplaySchema,
      responses: { 200: json(ReplaySchema, "The outcome, and how it compares with the recording") },
    },
    async (c, { params, body }) => {
      checkActive(c);
      const tenantId = c.get("tenant").id;
      const recording = await recordingOf(tenantId, params.call);
      const version = body.version ?? Number(recording.toolVersion);
      if (body.version === undefined) await checkSameCode(tenantId, recording, version);
      await load(c, recording.toolName, version);
      using _slot = await admit(c);
      const replayed = await glovebox.replay(recording, {
        tenantId,
        toolVersion: String(version),
        signal: c.req.raw.signal,
        ...(Object.hasOwn(body, "input") ? { arguments: body.input } : {}),
      });
      return respondWithJson(c, toShown(replayed));
    },
  );
  addRoute(
    app,
    dependencies,
    "POST /v1/tenants/{tenant}/tools/{tool}/rehearsals",
    {
      summary: "Replays recorded calls of a tool on another version, and reports what would have been different",
      params: ToolParamsSchema,
      body: NewRehearsalSchema,
      responses: { 200: json(RehearsalSchema, "The report") },
    },
    async (c, { params, body }) => {
      checkActive(c);
      const tenantId = c.get("tenant").id;
      const { tool: toolName } = params;
      await load(c, toolName, body.version);
      await calls.flush();
      const since = body.since ?? dependencies.database.clock.now() - 7 * DAY_MS;
      const ids = await listRecorded(db, { tenantId, toolName, since, limit: body.sample });
      const report = await glovebox.rehearse(
        readAll(ids, (id) => findRecording(db, tenantId, id)),
        { tenantId, toolVersion: String(body.version), signal: c.req.raw.signal, admit: () => admit(c) },
      );
      return respondWithJson(c, report);
    },
  );
  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/tools/{tool}/versions/{version}/bundle",
    {
      summary: "Returns the code of a version as it runs, for a replay on another machine",
      params: VersionParamsSchema,
      responses: { 200: json(z.looseObject({}), "The bundle of a JavaScript tool, or the files of a Python tool") },
    },
    async (c, { params }) => {
      const key = { tenantId: c.get("tenant").id, toolName: params.tool };
      const version = await findVersion(db, key, params.version);
      // The stored bundle of a Python tool describes its files for inspections. Its files are what runs.
      const kind = version?.language === "python" ? "source" : "bundle";
      const text = version && (await readVersionFile(db, key, params.version, kind));
      if (text === undefined) throw notFound("version", `${params.tool}@${params.version}`);
      return respondWithJson(c, JSON.parse(text));
    },
  );
}

/** Reads recordings one after another, so that only those that are being replayed are in memory. One that was deleted meanwhile is left out. */
async function* readAll(
  ids: readonly string[],
  read: (id: string) => Promise<string | undefined>,
): AsyncGenerator<unknown, void> {
  for (const id of ids) {
    const text = await read(id);
    if (text !== undefined) yield JSON.parse(text);
  }
}
