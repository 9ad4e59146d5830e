// The master key, which encrypts secrets in the database. It is configured by the operator, or created in the data folder, and never stored in
// the database or its backups.
import { execFile } from "node:child_process";
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { makeFolderSync } from "../../bundler/locate/make-folder.ts";
import { ToolError } from "../../host/index.ts";
import type { Db } from "../database/open-database.ts";

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
/** First byte of a sealed value, for later formats. */
const FORMAT = 1;
export const MASTER_KEY_FILE = "master.key";
export const MASTER_KEY_RULE = "Expected 32 bytes in base64 or hexadecimal, as from: openssl rand -base64 32";
const HEXADECIMAL = /^[0-9a-f]{64}$/i;
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/;

/** Owner and purpose of an encrypted value. A value that is moved to another row cannot be decrypted there. */
export interface SealedFor {
  readonly table: "secrets" | "webhooks" | "triggers" | "sign_in";
  readonly tenantId: string;
  /** Name or id of the row. */
  readonly name: string;
}

const contextOf = ({ table, tenantId, name }: SealedFor): Buffer =>
  Buffer.from(JSON.stringify([table, tenantId, name]));

export class MasterKey {
  readonly #key: Buffer;
  readonly #peers: Buffer;
  /** Identifies the key without disclosing it. */
  readonly id: string;

  /** @param bytes 32 random bytes */
  constructor(bytes: Buffer) {
    this.#key = Buffer.from(hkdfSync("sha256", bytes, "", "glovebox secrets", KEY_BYTES));
    this.#peers = Buffer.from(hkdfSync("sha256", bytes, "", "glovebox replicas", KEY_BYTES));
    const id = hkdfSync("sha256", bytes, "", "glovebox master key id", KEY_BYTES);
    this.id = createHash("sha256").update(Buffer.from(id)).digest("hex").slice(0, 32);
  }

  /** Encrypts a value with AES-256-GCM. */
  seal(value: string, owner: SealedFor): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce).setAAD(contextOf(owner));
    const encrypted = Buffer.concat([cipher.update(value, "utf8"), cipher.final()]);
    return Buffer.concat([Buffer.of(FORMAT), nonce, cipher.getAuthTag(), encrypted]);
  }

  /** @throws {ToolError} INTERNAL for a value that was sealed with another key or for another row, or that was changed */
  open(sealed: Uint8Array, owner: SealedFor): string {
    const bytes = Buffer.from(sealed);
    const start = 1 + NONCE_BYTES;
    try {
      if (bytes[0] !== FORMAT) throw new TypeError("Unknown format");
      const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(1, start))
        .setAAD(contextOf(owner))
        .setAuthTag(bytes.subarray(start, start + TAG_BYTES));
      const parts = [decipher.update(bytes.subarray(start + TAG_BYTES)), decipher.final()];
      return Buffer.concat(parts).toString("utf8");
    } catch (cause) {
      throw new ToolError("INTERNAL", `A stored secret (${owner.table}) cannot be decrypted`, { cause });
    }
  }

  /**
   * Returns the key of what a replica sends to another one: 32 bytes, which both can derive and nobody without the master key.
   * @param salt random bytes of the exchange
   * @param purpose who sends what to whom
   */
  derivePeerKey(salt: Uint8Array, purpose: string): Buffer {
    return Buffer.from(hkdfSync("sha256", this.#peers, salt, purpose, KEY_BYTES));
  }

  isSame(other: MasterKey): boolean {
    return timingSafeEqual(this.#key, other.#key);
  }
}

/** Returns whether a text is a master key. White space around it is ignored. */
export const isMasterKeyText = (text: string): boolean => HEXADECIMAL.test(text.trim()) || BASE64.test(text.trim());

/** @throws {ToolError} PARAM_INVALID */
export function parseMasterKey(text: string, what: string): MasterKey {
  if (!isMasterKeyText(text)) throw new ToolError("PARAM_INVALID", `${what}: ${MASTER_KEY_RULE}`);
  const trimmed = text.trim();
  return new MasterKey(Buffer.from(trimmed, HEXADECIMAL.test(trimmed) ? "hex" : "base64"));
}

/** @throws {ToolError} PARAM_INVALID if the file cannot be read, or holds no key */
export function readMasterKeyFile(path: string, what: string): MasterKey {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", `${what}: The file cannot be read`, { cause });
  }
  return parseMasterKey(text, what);
}

export interface MasterKeyOptions {
  readonly masterKey?: string | undefined;
  readonly masterKeyFile?: string | undefined;
  readonly masterKeyCommand?: readonly string[] | undefined;
  readonly dataDir: string;
}

/** Longest time in ms that the command may take. */
const COMMAND_MS = 30_000;

/** @throws {ToolError} PARAM_INVALID if the command fails, or prints no key */
async function runKeyCommand([program = "", ...args]: readonly string[]): Promise<MasterKey> {
  const what = "options.masterKeyCommand";
  let text: string;
  try {
    const options = { timeout: COMMAND_MS, maxBuffer: 65_536, killSignal: "SIGKILL" } as const;
    text = (await promisify(execFile)(program, args, options)).stdout;
  } catch (thrown) {
    // Not as the cause: its fields hold what the command printed.
    const { code, killed } = thrown as { readonly code?: unknown; readonly killed?: boolean };
    const why = killed === true ? `took longer than ${COMMAND_MS} ms` : `failed (${code})`;
    throw new ToolError("PARAM_INVALID", `${what}: The command ${why}`);
  }
  return parseMasterKey(text, what);
}

async function readConfiguredKey(options: MasterKeyOptions): Promise<MasterKey | undefined> {
  const { masterKey, masterKeyFile, masterKeyCommand, dataDir } = options;
  if (masterKeyCommand !== undefined) return await runKeyCommand(masterKeyCommand);
  if (masterKey !== undefined) return parseMasterKey(masterKey, "options.masterKey");
  if (masterKeyFile !== undefined) return readMasterKeyFile(masterKeyFile, "options.masterKeyFile");
  const path = join(dataDir, MASTER_KEY_FILE);
  return existsSync(path) ? readMasterKeyFile(path, MASTER_KEY_FILE) : undefined;
}

function createKeyFile(path: string): MasterKey {
  const bytes = randomBytes(KEY_BYTES);
  // With Postgres, nothing else has created the folder yet.
  makeFolderSync(dirname(path));
  writeFileSync(path, `${bytes.toString("base64")}\n`, { mode: 0o600, flag: "wx" });
  chmodSync(path, 0o600);
  return new MasterKey(bytes);
}

export async function readMasterKeyId(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom("settings").select("value").where("name", "=", "master_key_id").executeTakeFirst();
  return row?.value;
}

/**
 * Returns the master key: as configured, or from the data folder, where it is created for a database that has none yet.
 * @throws {ToolError} PARAM_INVALID for a key that is not the database's, or if the database's key is not there
 */
export async function openMasterKey(db: Db, options: MasterKeyOptions): Promise<MasterKey> {
  const configured = await readConfiguredKey(options);
  const id = await readMasterKeyId(db);
  if (configured === undefined && id !== undefined) {
    const message = `The secrets in this database are encrypted with a master key that is not configured. Set options.masterKeyFile, or copy ${MASTER_KEY_FILE} to the data folder`;
    throw new ToolError("PARAM_INVALID", message);
  }
  const key = configured ?? createKeyFile(join(options.dataDir, MASTER_KEY_FILE));
  if (id === undefined) {
    await db
      .insertInto("settings")
      .values({ name: "master_key_id", value: key.id })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    // Another server may have stored its key at the same time.
    if ((await readMasterKeyId(db)) === key.id) return key;
  } else if (id === key.id) return key;
  throw new ToolError(
    "PARAM_INVALID",
    "The configured master key is not the one that this database's secrets are encrypted with",
  );
}
