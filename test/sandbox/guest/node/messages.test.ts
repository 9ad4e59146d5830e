// Compares messages of errors that programs show or compare in a guest with Node's own.
import { expect, test } from "vitest";
import { expectLikeNode, runGuest } from "../../../support/guest.ts";

test("errors of the platform have the messages of Node", () =>
  expectLikeNode(async () => {
    const url = process.getBuiltinModule("node:url");
    const vm = process.getBuiltinModule("node:vm");
    const used = new Response("x");
    await used.text();
    const request = new Request("http://a.test/", { method: "POST", body: "x" });
    await request.text();
    const attempts: (() => unknown)[] = [
      () => new URL("x"),
      () => new URL("http://"),
      () => new URL("x", "y"),
      () => url.parse(undefined as never),
      () => url.parse({} as never),
      () => used.text(),
      () => used.json(),
      () => used.clone(),
      () => request.arrayBuffer(),
      () => new Request(request),
      () => structuredClone(() => 1),
      () => structuredClone({ a: Symbol("x") }),
      () => structuredClone(new WeakMap()),
      () => structuredClone([Promise.resolve()]),
      () => new vm.Script("let a; let a;"),
      () => new vm.Script("#!/usr/bin/env node\n1 + 1").runInThisContext(),
    ];
    const seen: unknown[] = [];
    for (const attempt of attempts) {
      try {
        seen.push(await attempt());
      } catch (error) {
        const { name, code, message, input, base } = error as Error & { [name: string]: unknown };
        seen.push([name, code, message, input, base]);
      }
    }
    return seen;
  }, undefined));

test("the error of a call has the URL that is invalid", async () => {
  const { outcome, value } = await runGuest(() => new URL("no url"));
  expect(outcome).toBe("thrown");
  expect(value).toMatchObject({ name: "TypeError", message: "Invalid URL: no url" });
});

test("a script that does not parse fails when it is compiled", () =>
  expectLikeNode(() => {
    const { Script } = process.getBuiltinModule("node:vm");
    return ["(", "a b", "1 +"].map((code) => {
      try {
        return new Script(code) && "compiled";
      } catch (error) {
        return (error as Error).name;
      }
    });
  }, undefined));

test("what only makes Node faster does nothing", async () => {
  const { value } = await runGuest(() => {
    const module = process.getBuiltinModule("node:module") as unknown as Record<string, () => unknown>;
    const os = process.getBuiltinModule("node:os");
    return [
      ...["enableCompileCache", "flushCompileCache", "setSourceMapsSupport", "getCompileCacheDir"].map(
        (name) => module[name]?.() ?? null,
      ),
      os.cpus().length,
      os.cpus()[0]?.times.idle,
      os.freemem() <= os.totalmem() && os.totalmem() > 0,
      process.getuid?.(),
    ];
  });
  expect(value).toEqual([{ status: 3 }, null, null, null, 1, 0, true, 1_000]);
});

test("ciphers under their other names, key wrapping and Triple DES work as in Node", () =>
  expectLikeNode(() => {
    const { createCipheriv, createDecipheriv, getCiphers } = process.getBuiltinModule("node:crypto");
    return (
      [
        ["aes256", 32, 16],
        ["aes128", 16, 16],
        ["aes256-wrap", 32, 8],
        ["id-aes128-wrap", 16, 8],
        ["des-ede3-cbc", 24, 8],
        ["des3", 24, 8],
        ["des-ede3", 24, 0],
      ] as const
    ).map(([name, keyLength, ivLength]) => {
      const [key, iv] = [Buffer.alloc(keyLength, 7), ivLength === 0 ? null : Buffer.alloc(ivLength, 9)];
      const cipher = createCipheriv(name, key, iv);
      const sealed = Buffer.concat([cipher.update("a".repeat(32)), cipher.final()]);
      const decipher = createDecipheriv(name, key, iv);
      const opened = Buffer.concat([decipher.update(sealed), decipher.final()]);
      return [sealed.toString("hex"), opened.toString(), getCiphers().includes(name)];
    });
  }, undefined));
