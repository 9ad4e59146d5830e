// Uploaded archives: what is accepted, and each way in which one can be hostile.
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { packTar } from "modern-tar";
import { describe, expect, test } from "vitest";
import { unpackArchive } from "../../src/server/tools/archive.ts";
import { makeZip, type ZipItem } from "./support/make-zip.ts";

type Item = Parameters<typeof packTar>[0][number];
const file = (name: string, body: string | Uint8Array = "text"): Item => ({
  header: { name, size: Buffer.byteLength(body), type: "file" },
  body,
});
const tgz = async (...items: readonly Item[]): Promise<Buffer> => gzipSync(await packTar([...items]));
const zip = (...items: readonly ZipItem[]): Buffer => makeZip(items);

test("unpacks a .tar.gz and a .zip", async () => {
  const files = { "tool.ts": "export default () => 'é'", "lib/helper.ts": "export const a = 1;" };
  const folder: Item = { header: { name: "lib/", size: 0, type: "directory" } };
  const items = Object.entries(files).map(([name, body]) => file(name, body));
  expect(await unpackArchive(await tgz(folder, ...items))).toEqual(files);
  const zipped = Object.entries(files).map(([name, body]) => ({ name, body }));
  expect(await unpackArchive(zip(...zipped))).toEqual(files);
  expect(await unpackArchive(zip(...zipped.map((item) => ({ ...item, isDeflated: true }))))).toEqual(files);
});

test("leaves the one folder out that npm and GitHub pack everything into", async () => {
  expect(await unpackArchive(await tgz(file("package/tool.ts"), file("package/lib/a.ts")))).toEqual({
    "tool.ts": "text",
    "lib/a.ts": "text",
  });
});

test('unpacks what "tar -C folder ." packs, whose names begin with "./"', async () => {
  const folder: Item = { header: { name: "./", size: 0, type: "directory" } };
  const items = [file("./tool.ts"), file("./lib/a.ts")];
  expect(await unpackArchive(await tgz(folder, ...items))).toEqual({ "tool.ts": "text", "lib/a.ts": "text" });
  await expect(unpackArchive(await tgz(file("a.ts"), file("./a.ts")))).rejects.toThrow("is in the archive twice");
});

const BAD_PATHS = [
  ...[
    "../tool.ts",
    "a/../../tool.ts",
    "/etc/passwd",
    "..",
    "a//b.ts",
    "././a.ts",
    ".//a.ts",
    "./../a.ts",
    "a/./b.ts",
    "C:/a.ts",
    "a\\..\\b.ts",
  ],
  ...["a\u0000.ts", "a\nb.ts", " a.ts", "a.ts ", "a/ /b.ts", `${"x".repeat(600)}.ts`, "con:", "a?.ts", ""],
];

test.for([
  { "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "tool.ts", "GNU.sparse.realsize": "100000" },
  { "GNU.sparse.map": "0,4", "GNU.sparse.size": "9999", "GNU.sparse.numblocks": "1" },
])("rejects a sparse file, whose bytes are not its content: %j", async (pax) => {
  const body = "1\n0\n4\ntext";
  const packed = await tgz({ header: { name: "GNUSparseFile.0/tool.ts", size: body.length, type: "file", pax }, body });
  await expect(unpackArchive(packed)).rejects.toThrow("is a sparse file. Pack it without the option --sparse");
});

describe.for(BAD_PATHS)("the path %j", (path) => {
  test("is rejected in both formats", async () => {
    const tar = await tgz(file("ok.ts"), file(path)).catch(() => undefined);
    // The packer itself rejects some of them, and in a tar header, NUL ends the path.
    if (tar !== undefined && !path.includes("\0"))
      await expect(unpackArchive(tar)).rejects.toMatchObject({ code: "PARAM_INVALID" });
    await expect(unpackArchive(zip({ name: "ok.ts" }, { name: path }))).rejects.toMatchObject({
      code: "PARAM_INVALID",
    });
  });
});

const link = (type: "symlink" | "link", linkname: string): Item => ({
  header: { name: "link.ts", size: 0, type, linkname },
});
const DEVICE: Item = { header: { name: "null", size: 0, type: "character-device" } };

test.for([
  ["a symbolic link", () => tgz(file("a.ts"), link("symlink", "/etc/passwd")), "is a symlink"],
  ["a hard link", () => tgz(file("a.ts"), link("link", "a.ts")), "is a link"],
  ["a device", () => tgz(file("a.ts"), DEVICE), "is a character-device"],
  ["a symbolic link in a zip", async () => zip({ name: "link.ts", mode: 0o120_777 }), "is not a regular file"],
  ["an encrypted file", async () => zip({ name: "a.ts", flags: 1, isDeflated: true }), "is encrypted"],
  ["a path twice", () => tgz(file("a.ts"), file("a.ts")), "is in the archive twice"],
  ["paths that differ in case only", () => tgz(file("a.ts"), file("A.ts")), "is in the archive twice"],
  ["bytes that are not UTF-8", () => tgz(file("a.ts", Uint8Array.of(0xff, 0xfe))), "is not text in UTF-8"],
  ["nothing", () => tgz(), "Expected at least one file"],
  ["no archive", async () => Buffer.from("export default () => 1"), "Expected a .tar.gz or .zip file"],
  ["an empty body", async () => Buffer.alloc(0), "Expected a .tar.gz or .zip file"],
  ["gzip data that is cut off", async () => (await tgz(file("a.ts"))).subarray(0, 20), "damaged"],
  ["too many files", () => tgz(...Array.from({ length: 501 }, (_, n) => file(`f${n}.ts`))), "at most 500 files"],
  [
    "too many folders",
    () =>
      tgz(
        ...Array.from({ length: 1_001 }, (_, n): Item => ({ header: { name: `d${n}/`, size: 0, type: "directory" } })),
      ),
    "at most 500 files",
  ],
] as const)("rejects %s", async ([, make, message]) => {
  await expect(unpackArchive(await make())).rejects.toThrow(message);
});

test("says which way of compression is not supported", async () => {
  const zip = makeZip([{ name: "tool.ts" }]);
  const method = 10;
  const lzma = 14;
  zip.writeUInt16LE(lzma, zip.indexOf("PK\u0001\u0002") + method);
  await expect(unpackArchive(zip)).rejects.toMatchObject({
    code: "PARAM_INVALID",
    message: expect.stringMatching(/^archive: The zip data .+: "unsupported compression method: 14"$/),
  });
});

test("stops at the limit of the bytes, whatever the headers say", async () => {
  const large = "x".repeat(9 * 1024 * 1024);
  await expect(unpackArchive(await tgz(file("a.ts", large), file("b.ts", large)))).rejects.toThrow(
    "bytes in all files",
  );
  // A gzip bomb: 60 KiB become 64 MiB.
  await expect(unpackArchive(gzipSync(Buffer.alloc(64 * 1024 * 1024)))).rejects.toThrow("bytes in all files");
  const item = { body: large, isDeflated: true };
  await expect(unpackArchive(zip({ ...item, name: "a.ts" }, { ...item, name: "b.ts" }))).rejects.toThrow(
    "bytes in all files",
  );
  // A header that claims less than there is.
  await expect(unpackArchive(zip({ ...item, name: "a.ts", claimedSize: 10 }))).rejects.toMatchObject({
    code: "PARAM_INVALID",
  });
});

test("a damaged archive is unpacked or rejected, and never hangs", async () => {
  const sources = [
    await packTar([file("a.ts", "a".repeat(700)), file("lib/b.ts")]),
    zip({ name: "a.ts", body: "a".repeat(700), isDeflated: true }, { name: "lib/b.ts" }),
  ];
  await fc.assert(
    fc.asyncProperty(
      fc.nat({ max: 1 }),
      fc.array(fc.tuple(fc.nat({ max: 4_000 }), fc.integer({ min: 0, max: 255 })), { minLength: 1, maxLength: 12 }),
      fc.option(fc.nat({ max: 4_000 })),
      async (which, changes, end) => {
        const bytes = Buffer.from(sources[which] as Uint8Array);
        for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
        const cut = end === null ? bytes : bytes.subarray(0, end);
        const outcome = await unpackArchive(which === 0 ? gzipSync(cut) : cut).catch((error: unknown) => error);
        if (outcome instanceof Error) expect(outcome).toMatchObject({ code: "PARAM_INVALID" });
        else for (const path of Object.keys(outcome as object)) expect(path).not.toMatch(/^\/|(?:^|\/)\.\.(?:\/|$)/);
      },
    ),
    { numRuns: 500 },
  );
});
