// The request that deploys a tool: its schema, and the rules that apply to all ways to upload one.
import * as z from "zod";
import { limitedRecord } from "../../host/config/limited-record.ts";
import { LimitsObjectSchema } from "../../sandbox/contract/partial-limits.ts";
import { TOOL_NAME_RULE, ToolNameSchema } from "../../sandbox/contract/tool-name.ts";
import { AliasSchema } from "../records/tools/releases.ts";
import { LIVE } from "./tenant-tools.ts";
import { MAX_SOURCE_MAP_LENGTH } from "./uploaded-source-map.ts";

const MAX_FILES = 500;

/** URLs cannot have the names "." and ".." in their path. */
const DeployedNameSchema = ToolNameSchema.refine((name) => name !== "." && name !== "..", {
  error: `Expected ${TOOL_NAME_RULE}, other than . and ..`,
});

const uploadFields = {
  /** Name of the tool, whatever name its code exports. Default: the exported name, or else `defaultName`. */
  name: DeployedNameSchema.optional(),
  /** Name of the tool if its code exports none. Default: one from its entry file or its content. */
  defaultName: DeployedNameSchema.optional(),
  language: z.enum(["javascript", "typescript", "python"]).optional(),
  limits: LimitsObjectSchema.optional(),
  isolateLifetime: z.enum(["call", "tool", "session"]).default("call"),
  /** The release that runs the new version from now on; null for none. */
  alias: AliasSchema.nullable().default(LIVE),
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
      /**
       * Source map of `source` as JSON, if that is a bundle. Its paths are relative to the tool's folder. Logs and
       * errors then name the author's files.
       */
      sourceMap: z.string().min(2).max(MAX_SOURCE_MAP_LENGTH).optional(),
      ...uploadFields,
    }),
    z.strictObject({
      files: limitedRecord(z.string().min(1).max(512), z.string(), { max: MAX_FILES, what: "files" }),
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

/** How a version runs and is released. */
type DeploymentSettings = Pick<Deployment, "limits" | "isolateLifetime" | "alias" | "canaryPercent" | "approve">;
type WithoutSettings<Upload> = Upload extends unknown ? Omit<Upload, keyof DeploymentSettings> : never;
/** The code of a deployment, and the name that it gets. */
export type UploadedCode = WithoutSettings<Deployment>;
