// glovebox secrets: lists, sets and deletes the secrets of a tenant on a server.
import { readFileSync } from "node:fs";
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { printItems, take, timeOf } from "../remote/table.ts";
import { readSecret } from "../shared/input.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

/** Maximum number of secrets of a tenant. */
const MAX_SECRETS = 64;

/** Reads the value from a file, a pipe or a prompt. Never from an argument, which other users of the machine could see. */
async function readValue({ values }: Arguments, io: Io): Promise<string> {
  const file = values["value-file"] as string | undefined;
  if (file === undefined) return await readSecret(io, "Value: ");
  try {
    return readFileSync(file, "utf8").replace(/\r?\n$/, "");
  } catch {
    throw new UsageError(`--value-file: ${file} cannot be read`);
  }
}

async function setSecret(given: Arguments, io: Io, name: string): Promise<void> {
  const hosts = given.values["allow-host"] as readonly string[] | undefined;
  if (hosts === undefined)
    throw new UsageError("secrets set: expected --allow-host HOST, a host that may receive the secret");
  const tenant = await connectTenant(given, io);
  const value = await readValue(given, io);
  if (value === "") throw new UsageError("secrets set: expected a value on stdin, or --value-file FILE");
  const secret = await tenant.setSecret(name, { value, hosts });
  io.stdout.print(`Set ${secret.name} for ${secret.hosts.join(", ")}\n`);
}

export async function secretsCommand(given: Arguments, io: Io): Promise<number> {
  const [action, name] = given.positionals;
  const needsName = action === "set" || action === "delete";
  if (!needsName && action !== "list") throw new UsageError(`secrets: expected list, set or delete, got "${action}"`);
  if (needsName !== (name !== undefined))
    throw new UsageError(needsName ? `secrets ${action}: expected NAME` : "secrets list: expected no NAME");
  return await withServerErrors(async () => {
    if (action === "set") await setSecret(given, io, name as string);
    else if (action === "delete") {
      await (await connectTenant(given, io)).deleteSecret(name as string);
      io.stdout.print(`Deleted ${name}\n`);
    } else {
      const secrets = await take((await connectTenant(given, io)).secrets(), MAX_SECRETS);
      printItems(given, io, secrets, {
        name: (secret) => secret.name,
        hosts: (secret) => secret.hosts.join(", "),
        changed: (secret) => timeOf(secret.updatedAt),
      });
    }
    return 0;
  });
}
