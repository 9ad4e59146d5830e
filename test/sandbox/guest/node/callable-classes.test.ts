// Compares the classes of built-in modules that are constructor functions in Node: called without `new`, and inherited from by
// `util.inherits()`.
import { expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

test("calls classes of built-in modules without new", async () => {
  await expectLikeNode(() => {
    const get = (name: string): Record<string, (...args: unknown[]) => object> =>
      process.getBuiltinModule(name as "node:http") as never;
    const [http, crypto, fs, stream, zlib] = ["node:http", "node:crypto", "node:fs", "node:stream", "node:zlib"].map(
      get,
    );
    const bytes = Buffer.alloc(16);
    const classes: [Record<string, (...args: unknown[]) => object> | undefined, string, ...unknown[]][] = [
      [http, "Server"],
      [http, "Agent"],
      [crypto, "Hash", "md5"],
      [crypto, "Hmac", "md5", "key"],
      [crypto, "Sign", "sha256"],
      [crypto, "Verify", "sha256"],
      [crypto, "Cipheriv", "aes-128-cbc", bytes, bytes],
      [crypto, "Decipheriv", "aes-128-cbc", bytes, bytes],
      [crypto, "ECDH", "secp256k1"],
      [fs, "ReadStream", "/dev/null"],
      [stream, "Transform"],
      [zlib, "Gzip"],
    ];
    return classes.map(([module, name, ...args]) => {
      const Class = module?.[name] as unknown as new (...args: unknown[]) => object;
      const called = (Class as unknown as (...args: unknown[]) => object)(...args);
      const made = new Class(...args);
      return [name, called instanceof Class, made instanceof Class];
    });
  }, undefined);
});

test("applies classes of built-in modules to objects that inherit from them", async () => {
  await expectLikeNode(async () => {
    const { inherits } = process.getBuiltinModule("node:util");
    const { IncomingMessage, ServerResponse } = process.getBuiltinModule("node:http");
    type Constructor = new (...args: never[]) => object;
    const inherit = (
      Parent: Constructor,
      ...args: unknown[]
    ): (new () => Record<string, (...args: unknown[]) => unknown>) => {
      function Child(this: object): void {
        Reflect.apply(Parent as never, this, args);
        Object.assign(this, { isChild: true });
      }
      inherits(Child, Parent);
      return Child as never;
    };
    const response = new (inherit(ServerResponse, { method: "GET", headers: {} }))();
    response.setHeader?.("X-A", "1");
    const message = new (inherit(IncomingMessage as never, null))();
    message.push?.("body");
    message.push?.(null);
    const chunks: string[] = [];
    for await (const chunk of message as unknown as AsyncIterable<Buffer>) chunks.push(String(chunk));
    class Extended extends IncomingMessage {
      kind = "extended";
    }
    const extended = new Extended(null as never);
    return [
      response.getHeader?.("x-a"),
      response instanceof ServerResponse,
      Object.hasOwn(response, "isChild"),
      chunks,
      [extended.kind, extended instanceof IncomingMessage, extended.constructor.name],
    ];
  }, undefined);
});

test("initializes only the given object", async () => {
  const made = await inGuest(() => {
    const { ServerResponse } = process.getBuiltinModule("node:http");
    const first = Object.create(ServerResponse.prototype) as InstanceType<typeof ServerResponse>;
    Reflect.apply(ServerResponse as never, first, [{}]);
    const second = new ServerResponse({} as never);
    first.setHeader("a", "1");
    return [first === (second as unknown), first.hasHeader("a"), second.hasHeader("a")];
  });
  expect(made).toEqual([false, true, false]);
});
