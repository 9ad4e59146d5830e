// Builds what was uploaded, with its npm packages, and reads its definition.
import type * as z from "zod";
import { createGlovebox, type Glovebox, type PartialLimits, ToolError, type ToolInspection } from "../../host/index.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import { type Files, unpackArchive } from "./archive.ts";
import type { SourceModeSchema, UploadedCode } from "./deployment-request.ts";
import type { PackageInstaller } from "./packages.ts";
import {
  applySourceMap,
  parseUploadedSourceMap,
  toOriginalError,
  type UploadedSourceMap,
} from "./uploaded-source-map.ts";

export interface BuildUploadDependencies {
  readonly glovebox: Glovebox;
  /** Undefined if uploads may not install packages. */
  readonly installer: PackageInstaller | undefined;
  /** Limits of every call of the server. */
  readonly limits: PartialLimits;
}

/** The tenant that an upload is built for. */
export type BuildTenant = Pick<TenantRecord, "id" | "policy">;

/** @throws {ToolError} CAPABILITY_DENIED for a capability that the tenant's tools cannot have */
export function grantsFor({ policy }: TenantRecord, { definition }: ToolInspection): readonly string[] {
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

/**
 * Reads the definition of an upload. Code that fails when it is loaded cannot be deployed: that is an error of the upload, not of a call.
 * @param map the source map of the upload: errors name the author's files
 */
async function inspect(
  dependencies: BuildUploadDependencies,
  tenant: BuildTenant,
  source: Source,
  named: Pick<UploadedCode, "name" | "defaultName" | "language">,
  map: UploadedSourceMap | undefined,
): Promise<ToolInspection> {
  try {
    return needsPackages(source)
      ? await inspectWithPackages(dependencies, tenant, { ...source, ...named })
      : await dependencies.glovebox.inspectTool({ ...source, ...named }, { tenantId: tenant.id });
  } catch (thrown) {
    if (!(thrown instanceof ToolError)) throw thrown;
    const error =
      thrown.code === "TOOL_FAILED"
        ? new ToolError("BUNDLE_FAILED", `The tool fails when it is loaded: ${thrown.message}`, {
            details: { ...thrown.details },
            cause: thrown,
          })
        : thrown;
    throw map === undefined ? error : toOriginalError(error, map);
  }
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
 * @throws {ToolError} as {@link PackageInstaller.build} and `Glovebox.inspectTool`; CAPABILITY_DENIED if no packages may be installed
 */
async function inspectWithPackages(
  { installer, limits }: BuildUploadDependencies,
  { id: tenantId, policy }: BuildTenant,
  { files, ...input }: { readonly files: Files; readonly entry?: string | undefined },
): Promise<ToolInspection> {
  if (installer === undefined) {
    const message =
      "The upload has a package-lock.json, but the operator of this server has not allowed packages (options.packages). Deploy with `glovebox deploy`, which bundles the packages, or leave the file out";
    throw new ToolError("CAPABILITY_DENIED", message);
  }
  const { "package-lock.json": _, ...sources } = files;
  return await installer.build(files, tenantId, async (packagesDir) => {
    // Its own, because the packages are those of this upload.
    await using builder = await createGlovebox({
      tenancy: "multi",
      limits,
      tenants: () => ({ limits: policy.limits }),
      bundler: { packagesDir },
      cache: false,
      workers: { max: 1 },
    });
    return await builder.inspectTool({ ...input, files: sources }, { tenantId });
  });
}

/** Returns the files of a Python tool: a single source is `tool.py`. */
function toPythonFiles(
  source: { readonly source: string } | { readonly files: object; readonly entry?: string | undefined },
): object {
  return "source" in source ? { files: { "tool.py": source.source }, entry: "tool.py" } : source;
}

/** An upload that was built. */
export interface BuiltUpload {
  readonly inspection: ToolInspection;
  readonly language: "javascript" | "python";
  /** The uploaded source, as the server keeps it. */
  readonly source: object;
  readonly bundle: ToolInspection["bundle"];
}

/** Builds an upload, and checks the name of its tool. @throws {ToolError} as `deploy` */
export async function buildUpload(
  dependencies: BuildUploadDependencies,
  tenant: BuildTenant,
  { name, defaultName, language, ...upload }: UploadedCode,
): Promise<BuiltUpload> {
  const map = "sourceMap" in upload ? upload.sourceMap : undefined;
  const uploadedMap = map === undefined ? undefined : parseUploadedSourceMap(map);
  const source = await toSource(upload);
  const named = { name, defaultName, language };
  const inspection = await inspect(dependencies, tenant, source, named, uploadedMap);
  const { definition, bundle } = inspection;
  if (definition.name === "." || definition.name === "..") {
    const message = `The tool's name is "${definition.name}", which no URL can contain. Deploy it with another name`;
    throw new ToolError("PARAM_INVALID", message);
  }
  const mapped =
    uploadedMap === undefined ? bundle : { ...bundle, sourceMap: applySourceMap(bundle.sourceMap, uploadedMap) };
  if (bundle.entry.endsWith(".py"))
    return { inspection, language: "python", source: toPythonFiles(source), bundle: mapped };
  const kept = map === undefined ? source : { ...source, sourceMap: map };
  return { inspection, language: "javascript", source: kept, bundle: mapped };
}
