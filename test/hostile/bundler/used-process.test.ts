// Attack: a tenant's source takes over the build process, which is used again, and forges the bundles of sources that others use too. The
// forger is a real child process with its own script: it answers its first request honestly and forges every later one.
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { Bundler } from "../../../src/bundler/bundler.ts";
import { createBundleCache } from "../../../src/bundler/cache/bundle-cache.ts";
import { BuildProcesses } from "../../../src/bundler/compile/child/build-processes.ts";
import { descendants, failureOf, makeFolder } from "../../bundler/workbench.ts";

/** A child whose bundles contain the text "honest" until it has built once, and "forged" from then on. */
const FORGER = `
const { stdin, stdout } = process;
let builds = 0;
let bytes = Buffer.alloc(0);
stdin.on("end", () => process.exit(0));
stdin.on("data", (chunk) => {
  bytes = Buffer.concat([bytes, chunk]);
  if (bytes.length < 4 || bytes.length < 4 + bytes.readUInt32BE()) return;
  const request = JSON.parse(bytes.subarray(4).toString());
  bytes = Buffer.alloc(0);
  builds += 1;
  const code = (builds === 1 ? "honest " : "forged ") + Object.values(request.files.files).join();
  const response = { ok: true, code, sourceMap: "{}", exports: ["default"], inputs: [], packages: [], dynamicCode: [], dependencies: [], absent: [] };
  const body = Buffer.from(JSON.stringify(response));
  const header = Buffer.alloc(4);
  header.writeUInt32BE(body.length);
  stdout.write(Buffer.concat([header, body]), AFTER);
});
`;

/** Of builds, and of processes that wait for the next one. */
const PATIENT_MS = 200_000;
const before = new Set(descendants());
const children = (): readonly number[] => descendants().filter((pid) => !before.has(pid));
afterEach(async () => {
  await expect.poll(children).toEqual([]);
});

function makeBundler(after = "() => undefined", directory?: string): Bundler {
  const folder = makeFolder({ "forger.cjs": FORGER.replace("AFTER", () => after) });
  const processes = new BuildProcesses({ maxIdle: 4, script: join(folder, "forger.cjs"), idleMs: PATIENT_MS });
  const limits = { timeoutMs: PATIENT_MS };
  return new Bundler({ cache: createBundleCache({ directory }), root: folder, limits }, processes);
}

const SHARED = { source: "export default 'shared'" };

test("a forged bundle reaches no other tenant, from memory or from the disk", async () => {
  const directory = join(makeFolder(), "cache");
  await using bundler = makeBundler(undefined, directory);
  await bundler.bundle({ source: "export default 'takes over'" }, { owner: "tenant:attacker" });
  const forged = await bundler.bundle(SHARED, { owner: "tenant:attacker" });
  expect(forged.bundle.code).toContain("forged");
  for (const owner of ["tenant:victim", "global", undefined]) {
    expect((await bundler.bundle(SHARED, { owner })).bundle.code).toContain("honest");
  }
  await using other = makeBundler(undefined, directory);
  expect((await other.bundle(SHARED, { owner: "tenant:another" })).bundle.code).toContain("honest");
});

test("another tenant does not join a build that runs in a used process", async () => {
  await using bundler = makeBundler();
  await bundler.bundle({ source: "export default 'takes over'" }, { owner: "tenant:attacker" });
  const [forged, honest] = await Promise.all([
    bundler.bundle(SHARED, { owner: "tenant:attacker" }),
    bundler.bundle(SHARED, { owner: "tenant:victim" }),
  ]);
  expect([forged.bundle.code, honest.bundle.code]).toEqual([
    expect.stringContaining("forged"),
    expect.stringContaining("honest"),
  ]);
});

test("a bundle from a process without a history is shared", async () => {
  await using bundler = makeBundler();
  await bundler.bundle(SHARED, { owner: "tenant:first" });
  expect((await bundler.bundle(SHARED, { owner: "tenant:second" })).cached).toBe(true);
});

test("a process that writes without a request, or more than one response, builds nothing more", async () => {
  const late = "() => setTimeout(() => stdout.write(Buffer.alloc(100)), 1)";
  for (const after of [late, "() => undefined); stdout.write(Buffer.alloc(100)"]) {
    await using bundler = makeBundler(after);
    await bundler.bundle({ source: "export default 'takes over'" }, { owner: "tenant:a" });
    await expect.poll(children).toEqual([]);
    expect((await bundler.bundle(SHARED, { owner: "tenant:a" })).bundle.code).toContain("honest");
  }
});

test("a process that ends between two builds costs no build", async () => {
  await using bundler = makeBundler("() => process.exit(0)");
  for (const text of ["1", "2", "3"]) {
    const { bundle } = await bundler.bundle({ source: `export default ${text}` }, { owner: "tenant:a" });
    expect(bundle.code).toContain("honest");
  }
});

test("ends with its tenant", async () => {
  await using bundler = makeBundler();
  await bundler.bundle(SHARED, { owner: "tenant:a" });
  expect(children()).toHaveLength(1);
  await bundler.endOwner("tenant:a");
  expect(children()).toEqual([]);
  const aborted = bundler.bundle({ source: "export default 5" }, { owner: "tenant:a", signal: AbortSignal.abort() });
  expect((await failureOf(aborted)).code).toBe("CANCELLED");
});
