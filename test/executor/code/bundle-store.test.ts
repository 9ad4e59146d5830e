// The bundles that an executor keeps: deleted with the last tenant that has used them, also after a restart.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type BundleRef, BundleStore } from "../../../src/executor/code/bundle-store.ts";
import { ObjectStore } from "../../../src/executor/code/object-store.ts";
import { hashOf } from "../../../src/host/fleet/objects/object-offers.ts";
import type { ObjectRef } from "../../../src/host/fleet/protocol/message-fields.ts";
import { pack } from "../../../src/sandbox/protocol/length-prefixed.ts";

async function openFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-bundles-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

const storeIn = (folder: string): BundleStore => new BundleStore({ folder, maxBytes: 10_000_000 });

/** A bundle as a control plane sends it. */
function bundleOf(code: string): { readonly ref: BundleRef; readonly read: () => Promise<Buffer> } {
  const bytes = Buffer.from(pack([Buffer.from(code), Buffer.alloc(0), Buffer.from("[]")]));
  const ref = { name: "bundle", code: hashOf(Buffer.from(code)), sha256: hashOf(bytes), bytes: bytes.byteLength };
  return { ref, read: async () => bytes };
}
const bundlesIn = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.endsWith(".bundle")).map((name) => name.slice(0, -".bundle".length));
const gone = async (): Promise<Buffer> => Promise.reject(new Error("The control plane has it no more"));

test("deletes what only the deleted tenant has used, from memory and from the disk", async () => {
  const folder = await openFolder();
  const store = storeIn(folder);
  const [own, both, other] = [bundleOf("own"), bundleOf("both"), bundleOf("other")];
  await store.get(own.ref, "acme", own.read);
  await store.get(both.ref, "acme", both.read);
  expect(store.known(both.ref, "beta")?.code).toBe("both");
  await store.get(other.ref, "beta", other.read);
  await store.deleteTenant("acme");
  expect((await bundlesIn(folder)).sort()).toEqual([both.ref.sha256, other.ref.sha256].sort());
  expect([store.known(own.ref, "acme"), store.known(both.ref, "beta")?.code]).toEqual([undefined, "both"]);
  await expect(store.get(own.ref, "acme", gone)).rejects.toThrow("no more");
  await store.deleteTenant("beta");
  expect(await bundlesIn(folder)).toEqual([]);
});

test("knows after a restart which tenants have used a bundle", async () => {
  const folder = await openFolder();
  const [own, other] = [bundleOf("own"), bundleOf("other")];
  const before = storeIn(folder);
  await before.get(own.ref, "acme", own.read);
  await before.get(other.ref, "beta", other.read);
  const after = storeIn(folder);
  await after.deleteTenant("acme");
  expect(await bundlesIn(folder)).toEqual([other.ref.sha256]);
  expect((await readdir(folder)).join()).not.toMatch(/acme|beta/);
});

test("a tenant that is deleted while its bundle is being read leaves none", async () => {
  const folder = await openFolder();
  const store = storeIn(folder);
  const { ref, read } = bundleOf("late");
  const arrived = Promise.withResolvers<void>();
  const loading = store.get(ref, "acme", async () => {
    await arrived.promise;
    return await read();
  });
  const deleting = store.deleteTenant("acme");
  arrived.resolve();
  await Promise.all([loading, deleting]);
  expect(await bundlesIn(folder)).toEqual([]);
});

test("a store of other objects gives back their bytes, and deletes them in the same way", async () => {
  const folder = await openFolder();
  const store = new ObjectStore<ObjectRef, Buffer>({ folder, maxBytes: 10_000_000 }, (bytes) => bytes);
  const bytes = Buffer.from("def main(input): ...");
  const ref = { name: "source", sha256: hashOf(bytes), bytes: bytes.byteLength };
  expect(await store.get(ref, "acme", async () => bytes)).toEqual(bytes);
  const after = new ObjectStore<ObjectRef, Buffer>({ folder, maxBytes: 10_000_000 }, (stored) => stored);
  expect(await after.get(ref, "acme", gone)).toEqual(bytes);
  await after.deleteTenant("acme");
  expect(await bundlesIn(folder)).toEqual([]);
});
