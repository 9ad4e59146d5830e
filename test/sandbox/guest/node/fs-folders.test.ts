// Compares opened folders, vectors, blobs and lines of node:fs in a guest with Node's own.
import { test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

test("opens folders as Node does", async () => {
  await expectLikeNode(async () => {
    const fs = process.getBuiltinModule("node:fs");
    const { mkdtemp, opendir, rm } = process.getBuiltinModule("node:fs/promises");
    const folder = await mkdtemp("/tmp/glovebox-dir-");
    for (const name of ["a", "b", "c"]) fs.writeFileSync(`${folder}/${name}`, name);
    fs.mkdirSync(`${folder}/d`);
    const codeOf = async (run: () => unknown): Promise<unknown> => {
      try {
        return await run();
      } catch (error) {
        const { code, syscall } = error as { readonly code?: string; readonly syscall?: string };
        return [code, syscall ?? "none"];
      }
    };
    const listed: unknown[] = [];
    const dir = await opendir(folder);
    for await (const entry of dir) listed.push([entry.name, entry.isDirectory(), entry.parentPath === folder]);
    const part = fs.opendirSync(folder);
    const first = part.readSync()?.isFile();
    const named = await new Promise((resolve) => part.read((_error, entry) => resolve(entry !== null)));
    part.closeSync();
    const broken = await opendir(folder);
    for await (const _ of broken) break;
    const codes = [
      await codeOf(() => dir.read()),
      await codeOf(() => broken.close()),
      await codeOf(() => opendir("/tmp/glovebox-none")),
      await codeOf(() => fs.opendirSync(`${folder}/a`)),
    ];
    await rm(folder, { recursive: true });
    return [listed.toSorted(), dir.path === folder, dir instanceof fs.Dir, first, named, codes];
  }, undefined);
});

test("reads and writes vectors, lines and blobs as Node does", async () => {
  await expectLikeNode(async () => {
    const fs = process.getBuiltinModule("node:fs");
    const { open } = process.getBuiltinModule("node:fs/promises");
    const path = `/tmp/glovebox-vectors-${process.pid}`;
    const handle = await open(path, "w+");
    const { bytesWritten } = await handle.writev([Buffer.from("one\ntw"), Buffer.from("o\nthree")]);
    fs.writevSync(handle.fd, [Buffer.from("ONE")], 0);
    const target = [Buffer.alloc(2), Buffer.alloc(30)];
    const { bytesRead } = await handle.readv(target, 1);
    const vector = fs.readvSync(handle.fd, [Buffer.alloc(4)], 0);
    await handle.close();
    const lines: string[] = [];
    const read = await open(path);
    for await (const line of read.readLines()) lines.push(line);
    const blob = await fs.openAsBlob(path, { type: "text/plain" });
    const text = await blob.text();
    fs.unlinkSync(path);
    return [
      bytesWritten,
      bytesRead,
      vector,
      target.map(String).join("|").slice(0, 12),
      lines,
      blob.type,
      blob.size,
      text,
    ];
  }, undefined);
});
