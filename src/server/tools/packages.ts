// Installs the packages of an upload that has a package.json with a lockfile, where the operator allows it: `npm ci` without scripts, as a
// process that can be killed and has no secrets in its environment, into a folder that is named by the hash of both files.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { chown, cp, mkdir, mkdtemp, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import * as z from "zod";
import { BuildSlots } from "../../bundler/compile/child/build-slots.ts";
import { makeFolder } from "../../bundler/locate/make-folder.ts";
import { ToolError } from "../../host/index.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import type { Files } from "./archive.ts";
import { checkLockfile, checkManifest } from "./package-files.ts";

export const PackagesSchema = strictObject({
  /** Names of the packages that tools may install, direct and indirect ones: `zod`, `@scope/*`, or `*` for every package. */
  allow: z
    .array(
      z
        .string()
        .regex(/^(?:\*|(?:@[a-z0-9._~-]+\/)?(?:\*|[a-z0-9._~-]+))$/i, { error: "Expected a name, @scope/* or *" }),
    )
    .min(1)
    .max(10_000),
  /** The registry that packages come from. */
  registry: z
    .url({ protocol: /^https?$/, normalize: true })
    .transform((url) => (url.endsWith("/") ? url : `${url}/`))
    .default("https://registry.npmjs.org/"),
  /** Longest time in ms that an installation may take. */
  timeoutMs: z.int().min(1_000).max(600_000).default(120_000),
  /** Maximum size of one installation in bytes. */
  maxBytes: z
    .int()
    .min(1_024)
    .max(2 ** 31)
    .default(256 * 1024 * 1024),
});
export type PackagesConfig = z.output<typeof PackagesSchema>;

/** Installations that are kept for the next upload with the same lockfile. */
const MAX_KEPT = 20;
/** Time in ms between two measurements of an installation's size. */
const MEASURE_MS = 500;
/** Uploads that are installed and built at one time. One tenant has at most all but one of them. */
const MAX_PARALLEL = 3;
const NOBODY = 65_534;

const hasCode = (thrown: unknown, code: string): boolean => (thrown as NodeJS.ErrnoException | null)?.code === code;

/** Returns the bytes of a folder. Files may disappear meanwhile. */
async function bytesOf(folder: string): Promise<number> {
  let bytes = 0;
  for (const item of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!item.isFile()) continue;
    bytes += await stat(join(item.parentPath, item.name)).then(
      ({ size }) => size,
      () => 0,
    );
  }
  return bytes;
}

/** The checked package.json and package-lock.json. */
interface PackageFiles {
  readonly text: string;
  readonly lock: string;
}

/** Installs packages and keeps them. */
export class PackageInstaller implements AsyncDisposable {
  readonly #config: PackagesConfig;
  readonly #directory: string;
  readonly #running = new Map<string, Promise<string>>();
  readonly #slots = new BuildSlots(MAX_PARALLEL);
  readonly #closing = new AbortController();
  /** Installations that builds use. The same one may be in it several times. */
  readonly #used = new Set<{ readonly hash: string }>();

  /** @param directory where installations are kept */
  constructor(config: PackagesConfig, directory: string) {
    this.#config = config;
    this.#directory = directory;
  }

  /**
   * Installs the packages of an upload, unless they are installed already, and builds it. The builds of tenants take turns.
   * @param build receives the folder that contains `node_modules`
   * @throws {ToolError} PARAM_INVALID for a manifest or lockfile that cannot be installed; CAPABILITY_DENIED for a package that the operator
   *   does not allow; BUNDLE_FAILED if npm fails, takes too long or installs too much; CANCELLED if the server stops
   */
  async build<Built>(files: Files, tenantId: string, build: (packagesDir: string) => Promise<Built>): Promise<Built> {
    const text = await checkManifest(files["package.json"] ?? "", this.#config);
    const lock = await checkLockfile(files["package-lock.json"] ?? "", this.#config);
    const hash = createHash("sha256")
      .update(JSON.stringify([this.#config.registry, text, lock]))
      .digest("hex");
    using _slot = await this.#slots.acquire(tenantId, this.#closing.signal);
    // The server can have stopped since its turn came. From here on, the stop waits for it.
    if (this.#closing.signal.aborted) throw new ToolError("CANCELLED", "The server stops");
    const use = { hash };
    this.#used.add(use);
    try {
      return await build(await this.#install(hash, { text, lock }));
    } finally {
      this.#used.delete(use);
    }
  }

  /** Ends the processes of npm, which would go on without their limits, and removes their files. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#running.values());
  }

  async #install(hash: string, files: PackageFiles): Promise<string> {
    const running = this.#running.get(hash);
    if (running !== undefined) return await running;
    const installing = this.#installOnce(hash, files).finally(() => this.#running.delete(hash));
    this.#running.set(hash, installing);
    return await installing;
  }

  async #installOnce(hash: string, files: PackageFiles): Promise<string> {
    const kept = join(this.#directory, hash);
    const now = new Date();
    try {
      await utimes(kept, now, now);
      return kept;
    } catch (thrown) {
      if (!hasCode(thrown, "ENOENT")) throw thrown;
    }
    // Not in the data folder, which a user without rights cannot reach.
    const work = await mkdtemp(join(tmpdir(), "glovebox-install-"));
    try {
      await writeFile(join(work, "package.json"), files.text);
      await writeFile(join(work, "package-lock.json"), files.lock);
      await this.#runNpm(work);
      await mkdir(join(work, "node_modules"), { recursive: true });
      await makeFolder(this.#directory);
      const staged = join(this.#directory, `.${hash}-${process.pid}`);
      await cp(join(work, "node_modules"), join(staged, "node_modules"), { recursive: true, verbatimSymlinks: true });
      try {
        await rename(staged, kept);
      } catch (thrown) {
        // Another server has installed the same meanwhile.
        await rm(staged, { recursive: true, force: true });
        if (!hasCode(thrown, "ENOTEMPTY") && !hasCode(thrown, "EEXIST")) throw thrown;
      }
      await this.#removeOld();
      return kept;
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }

  /** @throws {ToolError} BUNDLE_FAILED, CANCELLED */
  async #runNpm(work: string): Promise<void> {
    const closing = this.#closing.signal;
    const isRoot = process.getuid?.() === 0;
    if (isRoot) {
      for (const path of [work, join(work, "package.json"), join(work, "package-lock.json")]) {
        await chown(path, NOBODY, NOBODY);
      }
    }
    // Folders of packages may be readable to this user only, and hold another npm.
    const path = (process.env.PATH ?? "").split(delimiter).filter((part) => !part.includes("node_modules"));
    const child = spawn("npm", ["ci", ...npmFlags(this.#config.registry, work)], {
      cwd: work,
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
      env: {
        PATH: path.join(delimiter),
        HOME: work,
        npm_config_userconfig: join(work, ".npmrc"),
        NODE_ENV: "production",
      },
      ...(isRoot ? { uid: NOBODY, gid: NOBODY } : {}),
    });
    using watch = watchInstallation(child, work, this.#config, closing);
    let message = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      message = `${message}${text}`.slice(0, 4_000);
    });
    let code: number | null;
    try {
      code = await new Promise((resolve, reject) => {
        child.once("error", reject);
        child.once("close", resolve);
      });
    } catch (cause) {
      throw new ToolError("BUNDLE_FAILED", "npm could not be started on the server", { cause });
    }
    if (closing.aborted) throw new ToolError("CANCELLED", "The server stops");
    const stopped = await watch.findFault();
    if (stopped !== undefined) throw new ToolError("BUNDLE_FAILED", `The installation of the packages ${stopped}`);
    if (code !== 0)
      throw new ToolError("BUNDLE_FAILED", `npm could not install the packages: ${toReason(message, work)}`);
  }

  async #removeOld(): Promise<void> {
    const names = (await readdir(this.#directory)).filter((name) => /^[0-9a-f]{64}$/.test(name));
    const found = await Promise.all(
      names.map(async (name) => {
        // Another upload may have removed it meanwhile.
        const known = await stat(join(this.#directory, name)).catch(() => undefined);
        return { name, usedAt: known?.mtimeMs ?? 0 };
      }),
    );
    const old = found.toSorted((one, other) => other.usedAt - one.usedAt).slice(MAX_KEPT);
    const used = new Set(Array.from(this.#used, ({ hash }) => hash));
    for (const { name } of old) {
      if (!used.has(name)) await rm(join(this.#directory, name), { recursive: true, force: true });
    }
  }
}

function npmFlags(registry: string, work: string): readonly string[] {
  return [
    "--ignore-scripts",
    "--omit=dev",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
    // Only packages of the registry. A version of npm that does not know these options ignores them.
    ...["git", "remote", "file", "directory"].map((type) => `--allow-${type}=none`),
    ...["--fetch-retries=1", "--fetch-retry-mintimeout=500", "--fetch-retry-maxtimeout=1000"],
    `--registry=${registry}`,
    `--cache=${join(work, ".npm")}`,
  ];
}

/** Kills the group of a process, because npm may have children. */
function killGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

interface InstallationWatch extends Disposable {
  /** Returns why the installation was stopped, or is too large; undefined if it can be used. */
  findFault(): Promise<string | undefined>;
}

/** Kills an installation that takes too long or installs too much, or when the server stops. */
function watchInstallation(
  child: ChildProcess,
  work: string,
  { timeoutMs, maxBytes }: PackagesConfig,
  closing: AbortSignal,
): InstallationWatch {
  let stopped: string | undefined;
  const stop = (why: string): void => {
    stopped ??= why;
    killGroup(child);
  };
  const findExcess = async (): Promise<string | undefined> =>
    (await bytesOf(work)) > maxBytes ? `needs more than ${maxBytes} bytes (options.packages.maxBytes)` : undefined;
  const timer = setTimeout(() => stop(`took longer than ${timeoutMs} ms (options.packages.timeoutMs)`), timeoutMs);
  const measuring = setInterval(() => {
    findExcess().then(
      (why) => {
        if (why !== undefined) stop(why);
      },
      () => {},
    );
  }, MEASURE_MS);
  const onClosing = (): void => stop("was ended");
  closing.addEventListener("abort", onClosing);
  if (closing.aborted) onClosing();
  return {
    async findFault() {
      if (stopped !== undefined) return stopped;
      const excess = await findExcess();
      return stopped ?? excess;
    },
    [Symbol.dispose]() {
      clearTimeout(timer);
      clearInterval(measuring);
      closing.removeEventListener("abort", onClosing);
    },
  };
}

/** Returns what npm says about a failure, without paths of this machine. */
function toReason(stderr: string, work: string): string {
  const lines = stderr
    .replaceAll(work, "")
    .split("\n")
    .map((line) => line.replace(/^npm (?:error|ERR!) ?/, "").trim())
    .filter((line) => line !== "" && !line.startsWith("A complete log") && !line.includes("_logs"));
  return lines.slice(0, 5).join(" ").slice(0, 1_000);
}
