// The server and the key that commands use: from the environment, or as `glovebox login` has stored them.
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import * as z from "zod";
import { makeFolderSync } from "../../bundler/locate/make-folder.ts";
import { ApiError, createClient, type GloveboxClient, type TenantClient } from "../../client/index.ts";
import { homeFolder } from "../../host/util/home-folder.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, OutputError, toWriteError, UsageError } from "../usage.ts";

export const DEFAULT_URL = "http://127.0.0.1:7070";

const CredentialsSchema = z.strictObject({ url: z.url(), key: z.string().min(1) });
export type ServerLogin = z.infer<typeof CredentialsSchema>;

const fileIn = (env: NodeJS.ProcessEnv): string =>
  join(homeFolder(env.HOME), ".config", "glovebox", "credentials.json");

/**
 * Stores the server and the key, readable for this user only.
 * @throws {UsageError} if the file cannot be written
 */
export function storeCredentials(credentials: ServerLogin, env: NodeJS.ProcessEnv): string {
  const file = fileIn(env);
  try {
    makeFolderSync(dirname(file));
    writeFileSync(file, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600 });
    // The mode of writeFileSync does not concern a file that exists.
    chmodSync(file, 0o600);
  } catch (thrown) {
    throw toWriteError(file, thrown);
  }
  return file;
}

/** What a header can carry: a key with another character would fail as if the server could not be reached. */
const KEY = /^[\x21-\x7e]+$/;

/** @param what names the source of the key @throws {UsageError} for a key that no request can carry */
export function checkKeyText(what: string, key: string): void {
  if (!KEY.test(key)) throw new UsageError(`${what}: expected an API key without spaces and line breaks: gbx_…`);
}

/** Returns the URL of the server as the environment has it; undefined if it has none. @throws {UsageError} if it is invalid */
function readUrl({ GLOVEBOX_URL: url = "" }: NodeJS.ProcessEnv): string | undefined {
  if (url === "") return undefined;
  checkServerUrl("GLOVEBOX_URL", url);
  return url;
}

/** @param where names the source of the URL @throws {UsageError} for a URL that no request can be sent to */
export function checkServerUrl(where: string, url: string): void {
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
    throw new UsageError(`${where}: expected an http or https URL, such as ${DEFAULT_URL}`);
  const { username, password } = new URL(url);
  if (username !== "" || password !== "")
    throw new UsageError(
      `${where}: expected a URL without a user name and password. The API key says who sends a request`,
    );
}

/** @throws {UsageError} if there is no key, it is not one of the server, or the file with it is invalid */
function readCredentials(env: NodeJS.ProcessEnv): ServerLogin {
  const key = env.GLOVEBOX_API_KEY;
  const url = readUrl(env);
  if (key !== undefined && key !== "") {
    checkKeyText("GLOVEBOX_API_KEY", key);
    return { url: url ?? DEFAULT_URL, key };
  }
  const stored = readStored(fileIn(env));
  // The key would be disclosed to a server that it is not for.
  if (url !== undefined && new URL(url).origin !== new URL(stored.url).origin)
    throw new UsageError(
      `GLOVEBOX_URL: the stored API key is one of ${new URL(stored.url).origin}. Set GLOVEBOX_API_KEY too, or run glovebox login ${url}`,
    );
  return { ...stored, ...(url === undefined ? {} : { url }) };
}

function readStored(file: string): ServerLogin {
  if (!existsSync(file)) throw new UsageError("No API key: run glovebox login, or set GLOVEBOX_API_KEY");
  try {
    return CredentialsSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch {
    throw new UsageError("The stored API key cannot be read: run glovebox login again");
  }
}

/** Returns a client whose requests end when the command is stopped. */
export function connect({ env, stop }: Pick<Io, "env" | "stop">): GloveboxClient {
  return createClient({ ...readCredentials(env), signal: stop });
}

/** Returns the client of the tenant that a command concerns: `--tenant`, or the one of the key. */
export async function connectTenant({ values }: Arguments, io: Pick<Io, "env" | "stop">): Promise<TenantClient> {
  const client = connect(io);
  const named = values.tenant as string | undefined;
  const tenant = named ?? (await client.whoAmI()).tenantId ?? undefined;
  if (tenant === undefined)
    throw new UsageError("--tenant: expected the id of a tenant, because this key is one of the platform");
  return client.tenant(tenant);
}

/** Returns the location in the tool's source that an error names, unless its message has it: ` (tool.ts:2:7)`. */
function locationOf({ message, details }: ApiError): string {
  const { file, line, column } = (details ?? {}) as { readonly [name: string]: unknown };
  if (typeof file !== "string" || typeof line !== "number" || message.includes(`${file}:${line}`)) return "";
  return ` (${toVisibleLine(file)}:${line}${typeof column === "number" ? `:${column}` : ""})`;
}

/**
 * Runs a command against the server. An error of the server becomes one line.
 * @throws {OutputError} for an error of the server
 * @throws {UsageError} for an argument that the client rejects
 */
export async function withServerErrors(run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (thrown) {
    if (thrown instanceof TypeError && "code" in thrown && thrown.code === "PARAM_INVALID")
      throw new UsageError(thrown.message);
    if (!(thrown instanceof ApiError)) throw thrown;
    const { code, message, requestId, status } = thrown;
    const suffix = status >= 500 && requestId !== undefined ? ` (${requestId})` : "";
    throw new OutputError(`${code}: ${message}${locationOf(thrown)}${suffix}`);
  }
}
