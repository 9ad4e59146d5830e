// The commands that use a server: login, deploy, rollback, tools, calls and call.
import { readFileSync } from "node:fs";
import type { Call, Deployed } from "../../client/index.ts";
import { createClient } from "../../client/index.ts";
import { isSecureUrl } from "../../host/util/address-host.ts";
import {
  checkKeyText,
  checkServerUrl,
  connectTenant,
  DEFAULT_URL,
  storeCredentials,
  withServerErrors,
} from "../remote/connection.ts";
import { isJsonWanted, printItems, take, timeOf } from "../remote/table.ts";
import { prepareUpload, type ToolUpload } from "../remote/upload.ts";
import { readJsonInput, readKeyLine } from "../shared/input.ts";
import type { Io } from "../terminal/process-io.ts";
import { withProgress } from "../terminal/progress.ts";
import { type Arguments, UsageError } from "../usage.ts";

const LIST_LIMIT = 50;

/** Reads the key: from a file, a pipe, or a prompt. Never from an argument, which other users of the machine could see. */
async function readKey({ values }: Arguments, io: Io): Promise<string> {
  const file = values["key-file"] as string | undefined;
  if (file !== undefined) {
    try {
      return readFileSync(file, "utf8").trim();
    } catch {
      throw new UsageError(`--key-file: ${file} cannot be read`);
    }
  }
  return await readKeyLine(io, "API key: ");
}

export async function loginCommand(given: Arguments, io: Io): Promise<number> {
  const [url = DEFAULT_URL] = given.positionals;
  checkServerUrl("URL", url);
  const key = await readKey(given, io);
  if (key === "") throw new UsageError("Expected an API key on stdin, or --key-file FILE");
  checkKeyText(given.values["key-file"] === undefined ? "stdin" : "--key-file", key);
  return await withServerErrors(async () => {
    const { tenantId } = await createClient({ url, key, signal: io.stop }).whoAmI();
    storeCredentials({ url, key }, io.env);
    if (!isSecureUrl(url))
      io.stderr.print(`Warning: ${new URL(url).host} gets the key without encryption with each command. Use https\n`);
    io.stderr.print(
      `Logged in at ${url} with a key of ${tenantId === null ? "the platform" : `the tenant ${tenantId}`}\n`,
    );
    return 0;
  });
}

function printDeployed({ version, requests, release, isKnown, isNewlyApproved, warnings }: Deployed, io: Io): void {
  for (const warning of warnings) io.stderr.print(`Warning: ${warning}\n`);
  const name = `${version.tool}@${version.version}`;
  io.stdout.print(isKnown ? `${name} has this content already\n` : `Deployed ${name}\n`);
  if (isNewlyApproved) {
    io.stdout.print(
      isKnown ? "It has waited for approval, and is approved now:\n" : "You have approved what it requests:\n",
    );
    for (const item of requests.added) io.stdout.print(`  + ${item}\n`);
  }
  if (version.state === "denied")
    io.stdout.print(`It was denied and never runs. Change the tool, and deploy it again\n`);
  if (version.state === "waiting_for_approval") {
    const compared = version.version === 1 ? "" : " in addition to the live version";
    io.stdout.print(`It waits for approval of what it requests${compared}:\n`);
    for (const item of requests.added) io.stdout.print(`  + ${item}\n`);
    for (const item of requests.removed) io.stdout.print(`  - ${item}\n`);
    io.stdout.print(
      `Approve it with glovebox approvals approve ${name} or in the console, and then release it by deploying it again. Or do both: deploy it again with --approve\n`,
    );
  }
  if (release === null) return;
  const shares = release.versions.map((one) => `version ${one.version}: ${Math.round(one.weight * 10) / 10} %`);
  io.stdout.print(`${release.alias} runs ${shares.join(", ")}\n`);
}

const sizeOf = (upload: ToolUpload): string => `${Math.ceil(Buffer.byteLength(JSON.stringify(upload)) / 1_024)} KiB`;

/** Exits with 0 if the version is released or waits for approval, and with 1 if it was denied. */
export async function deployCommand(given: Arguments, io: Io): Promise<number> {
  const { values, positionals } = given;
  const [path = ""] = positionals;
  const upload = await withProgress(`Bundling ${path}`, io.stderr, () => prepareUpload(path));
  return await withServerErrors(async () => {
    const tenant = await connectTenant(given, io);
    const canary = values.canary as string | undefined;
    const doing = `Uploading ${sizeOf(upload)} and building it on the server`;
    const deployed = await withProgress(doing, io.stderr, () =>
      tenant.deploy({
        ...upload,
        ...(values.alias === undefined ? {} : { alias: values.alias }),
        ...(canary === undefined ? {} : { canaryPercent: Number(canary.replace("%", "")) }),
        ...(values.approve === true ? { approve: true } : {}),
      }),
    );
    if (isJsonWanted(given)) io.stdout.print(`${JSON.stringify(deployed, null, 2)}\n`);
    else printDeployed(deployed, io);
    return deployed.version.state === "denied" ? 1 : 0;
  });
}

export async function rollbackCommand(given: Arguments, io: Io): Promise<number> {
  return await withServerErrors(async () => {
    const tenant = await connectTenant(given, io);
    const [tool = ""] = given.positionals;
    const release = await tenant.rollback(tool, (given.values.alias as string | undefined) ?? "live");
    printItems(given, io, release.versions, { version: (one) => one.version, weight: (one) => one.weight });
    return 0;
  });
}

export async function toolsCommand(given: Arguments, io: Io): Promise<number> {
  return await withServerErrors(async () => {
    const tools = await take((await connectTenant(given, io)).tools(), 10_000);
    printItems(given, io, tools, {
      name: (tool) => tool.name,
      versions: (tool) => tool.versions,
      latest: (tool) => tool.latestVersion,
    });
    return 0;
  });
}

const durationOf = ({ startedAt, endedAt }: Call): string =>
  startedAt === null || endedAt === null ? "" : `${endedAt - startedAt} ms`;

export async function callsCommand(given: Arguments, io: Io): Promise<number> {
  const { tool, state } = given.values as { readonly tool?: string; readonly state?: string };
  return await withServerErrors(async () => {
    const calls = await take((await connectTenant(given, io)).calls({ tool, state }), LIST_LIMIT);
    printItems(given, io, calls, {
      id: (call) => call.id,
      tool: (call) => `${call.tool}${call.version === null ? "" : `@${call.version}`}`,
      state: (call) => call.state,
      effects: (call) => call.effects,
      created: (call) => timeOf(call.createdAt),
      duration: durationOf,
      error: (call) => (call.error as { readonly message?: string } | null)?.message,
    });
    return 0;
  });
}

/** Exits with 0 if the call succeeded or was accepted, and with 1 if it failed. */
export async function callCommand(given: Arguments, io: Io): Promise<number> {
  const { values, positionals } = given;
  const [tool = ""] = positionals;
  const chosen = await readJsonInput(values, io);
  const input = chosen === undefined ? {} : chosen;
  const alias = values.alias as string | undefined;
  const version = values.version === undefined ? undefined : Number(values.version);
  if (alias !== undefined && version !== undefined)
    throw new UsageError("call: expected --version or --alias, got both");
  return await withServerErrors(async () => {
    const tenant = await connectTenant(given, io);
    const request = { input, alias, version, ...(values.approve === true ? { approve: true } : {}) };
    const call = values.async === true ? await tenant.enqueue(tool, request) : await tenant.call(tool, request);
    const error = call.error as { readonly code: string; readonly message: string } | null;
    if (call.state === "waiting_for_approval")
      io.stderr.print(`glovebox: ${call.id} waits for approval: glovebox approvals approve ${call.approvalId}\n`);
    if (values.json === true || values.async === true) io.stdout.print(`${JSON.stringify(call, null, 2)}\n`);
    else if (error === null && call.endedAt !== null) io.stdout.print(`${JSON.stringify(call.output, null, 2)}\n`);
    if (error !== null && values.json !== true) io.stderr.print(`glovebox: ${error.code}: ${error.message}\n`);
    return error === null ? 0 : 1;
  });
}
