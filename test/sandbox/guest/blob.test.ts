// Compares Blob and File in a guest with Node's own.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../support/guest.ts";

const like = (run: () => unknown): Promise<void> => expectLikeNode(run, undefined);

describe("Blob", () => {
  test("is created from text, bytes, views and blobs", () =>
    like(async () => {
      const view = new DataView(Uint8Array.of(97, 98, 99, 100).buffer, 1, 2);
      const blob = new Blob(["ä\ud800", Uint8Array.of(1, 2), view, new Blob(["x"]), 5 as never], {
        type: "Text/PLAIN",
      });
      return [blob.size, blob.type, await blob.text(), Array.from(new Uint8Array(await blob.arrayBuffer()))];
    }));

  test("returns copies of its bytes", () =>
    like(async () => {
      const blob = new Blob(["abc"]);
      (await blob.bytes()).fill(0);
      new Uint8Array(await blob.arrayBuffer()).fill(0);
      for await (const chunk of blob.stream()) (chunk as Uint8Array).fill(0);
      return [await blob.text(), Array.from(await blob.bytes())];
    }));

  test.for<[start?: unknown, end?: unknown, type?: string]>([
    [],
    [1],
    [1, 3],
    [-2],
    [-2, -1],
    [3, 1],
    [100],
    [0, 100],
    [Number.NaN, 2],
    [0.5, 1.5],
    ["1", "2"],
    [0, 6, "Text/HTML"],
    [0, 1, "bad\u0001type"],
  ])("is sliced %j", (slice) =>
    expectLikeNode(async (args) => {
      const part = new Blob(["abcdef"], { type: "a/b" }).slice(...(args as [number]));
      return [part.size, part.type, await part.text()];
    }, slice),
  );

  test("streams its bytes, also into buffers of the reader", () =>
    like(async () => {
      const blob = new Blob(["a".repeat(200_000)]);
      let size = 0;
      for await (const chunk of blob.stream()) size += (chunk as Uint8Array).byteLength;
      const reader = blob.slice(0, 3).stream().getReader({ mode: "byob" });
      const first = await reader.read(new Uint8Array(2));
      const second = await reader.read(new Uint8Array(2));
      const last = await reader.read(new Uint8Array(2));
      return [size, Array.from(first.value ?? []), Array.from(second.value ?? []), last.done];
    }));

  test.for([
    "new Blob('text')",
    "new Blob(null)",
    "new Blob({})",
    "new Blob([], 5)",
    "new Blob([], { endings: 'other' })",
    "Blob()",
    "Blob.prototype.size",
    "Blob.prototype.slice.call({})",
  ])("rejects %s", async (expression) => {
    expect(await inGuest(`() => { try { ${expression}; } catch (error) { return error.name; } }`)).toBe("TypeError");
  });
});

describe("File", () => {
  test("is a blob with a name and a time", () =>
    like(async () => {
      const file = new File(["a", new Blob(["b"])], "n\ud800.txt", { type: "text/plain", lastModified: 12 });
      const { name, lastModified, type, size } = file;
      return [name, lastModified, type, size, file instanceof Blob, await file.text(), String(file)];
    }));

  test("has the guest's time by default", async () => {
    const [before, modified, after] = await inGuest(
      () => [Date.now(), new File([], "x").lastModified, Date.now()] as [number, number, number],
    );
    expect(modified).toBeGreaterThanOrEqual(before);
    expect(modified).toBeLessThanOrEqual(after);
  });

  test.for(["new File()", "new File([])", "new File(undefined, 'x')", "new File('text', 'x')"])(
    "rejects %s",
    async (expression) => {
      expect(await inGuest(`() => { try { ${expression}; } catch (error) { return error.name; } }`)).toBe("TypeError");
    },
  );
});

test("structuredClone copies blobs and files at any depth", () =>
  like(async () => {
    const file = new File(["abc"], "n", { type: "a/b", lastModified: 5 });
    const copy = structuredClone({ blob: file.slice(1), files: [file, file] });
    const [first, second] = copy.files as [File, File];
    return [
      await copy.blob.text(),
      copy.blob instanceof File,
      first === second,
      first === file,
      [first.name, first.type, first.lastModified, await first.text()],
    ];
  }));
