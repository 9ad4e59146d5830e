// Creates the credentials of a fleet: one NATS user for control planes, and one for each executor that may use only its
// own subjects. The NATS server gets public keys; the seeds stay in the credentials files.
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "../bundler/locate/make-folder.ts";
import { type FleetCredentials, FleetCredentialsSchema } from "../host/fleet/nats-connection.ts";
import { importNats } from "../host/fleet/nats-library.ts";
import { DEFAULT_POOL, POOL_RULE, PoolSchema } from "../host/fleet/protocol/pool-name.ts";
import {
  controlPermissions,
  type ExecutorIdentity,
  executorPermissions,
  FLEET_ID_PATTERN,
  FLEET_ID_RULE,
  type FleetPermissions,
} from "../host/fleet/protocol/subjects.ts";
import { ToolError } from "../sandbox/contract/errors.ts";

/** Name of the control plane's file. No executor may have it. */
const CONTROL_NAME = "control-plane";
/** The users of the NATS server, for an `include` in its configuration. */
export const USERS_FILE = "nats-users.conf";

/** What was written. */
export interface WrittenCredentials {
  /** Names of the files that were created. */
  readonly created: readonly string[];
  /** All executors that the configuration of the NATS server lists. */
  readonly executors: readonly ExecutorIdentity[];
}

/**
 * Writes credentials of a control plane and of executors into a folder, and the users of the NATS server. Existing
 * credentials stay valid and are listed again. To revoke an executor, delete its file and run it again.
 * @param pool pool of these executors. NATS lets them get calls of no other. Default: `default`
 * @throws {ToolError} PARAM_INVALID, as a rejection, for invalid names, for files that are not credentials, and for an executor that has
 *   credentials of another pool
 */
export async function writeCredentials(
  folder: string,
  ids: readonly string[],
  pool: string = DEFAULT_POOL,
): Promise<WrittenCredentials> {
  if (!PoolSchema.safeParse(pool).success)
    throw new ToolError(
      "PARAM_INVALID",
      `Expected the name of a pool: ${POOL_RULE}, got ${JSON.stringify(pool.slice(0, 100))}`,
    );
  for (const id of ids) {
    if (!FLEET_ID_PATTERN.test(id) || id === CONTROL_NAME)
      throw new ToolError(
        "PARAM_INVALID",
        `Expected the name of an executor to be ${FLEET_ID_RULE}, got ${JSON.stringify(id.slice(0, 100))}`,
      );
  }
  const { nkeys } = await importNats();
  await makeFolder(folder);
  const known = await readFolder(folder);
  for (const id of ids) {
    const has = known.get(id);
    if (has?.role === "executor" && has.pool !== pool)
      throw new ToolError(
        "PARAM_INVALID",
        `The executor ${id} has credentials of the pool "${has.pool}". To move it to "${pool}", delete ${id}.json first`,
      );
  }
  const created: string[] = [];
  const createUser = async (name: string, toCredentials: (seed: string) => FleetCredentials): Promise<void> => {
    if (known.has(name)) return;
    const credentials = toCredentials(new TextDecoder().decode(nkeys.createUser().getSeed()));
    await writeFile(join(folder, `${name}.json`), `${JSON.stringify(credentials, null, 2)}\n`, {
      mode: 0o600,
      flag: "wx",
    });
    known.set(name, credentials);
    created.push(`${name}.json`);
  };
  await createUser(CONTROL_NAME, (seed) => ({ role: "control-plane", seed }));
  for (const id of ids) await createUser(id, (seed) => ({ role: "executor", id, pool, seed }));
  const users = [...known.values()].map((credentials) => {
    const nkey = nkeys.fromSeed(new TextEncoder().encode(credentials.seed)).getPublicKey();
    const permissions = credentials.role === "executor" ? executorPermissions(credentials) : controlPermissions();
    return toUser(
      credentials.role === "executor" ? `executor ${credentials.id} of the pool ${credentials.pool}` : "control planes",
      nkey,
      permissions,
    );
  });
  const path = join(folder, USERS_FILE);
  await writeFile(`${path}.new`, toUsers(users), { mode: 0o644 });
  await rename(`${path}.new`, path);
  const executors = [...known.values()].flatMap((one) =>
    one.role === "executor" ? [{ id: one.id, pool: one.pool }] : [],
  );
  return { created: [...created, USERS_FILE], executors: executors.sort((a, b) => (a.id < b.id ? -1 : 1)) };
}

/** Returns the credentials in a folder by the names of their files. */
async function readFolder(folder: string): Promise<Map<string, FleetCredentials>> {
  const known = new Map<string, FleetCredentials>();
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
  for (const file of names) {
    const name = file.slice(0, -".json".length);
    const { success, data } = FleetCredentialsSchema.safeParse(parse(await readFile(join(folder, file), "utf8")));
    const expected = success && data.role === "executor" ? data.id : CONTROL_NAME;
    if (!success || name !== expected)
      throw new ToolError(
        "PARAM_INVALID",
        `The file ${JSON.stringify(file)} does not hold the credentials that its name says`,
      );
    known.set(name, data);
  }
  return known;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Subjects hold only letters, digits and `.*>$_-`, so JSON strings are valid strings of the configuration. */
const toList = (subjects: readonly string[]): string => JSON.stringify(subjects);

const toUser = (what: string, nkey: string, { publish, subscribe }: FleetPermissions): string =>
  `    # ${what}
    { nkey: ${nkey}, permissions: {
        publish: { allow: ${toList(publish)} }
        subscribe: { allow: ${toList(subscribe)} } } }
`;

const toUsers = (
  users: readonly string[],
): string => `# Users of the NATS server. Written by "glovebox executor credentials".
authorization {
  # In seconds: a client on a busy machine needs more than the default.
  timeout: 20
  users: [
${users.join("")}  ]
}
`;
