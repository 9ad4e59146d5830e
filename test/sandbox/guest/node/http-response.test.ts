// Compares http.ServerResponse in a guest with Node's own, as libraries use it that hand requests to a framework without a server.
import { test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

test("sends the headers of a response as Node does", async () => {
  await expectLikeNode(async () => {
    const { ServerResponse } = process.getBuiltinModule("node:http");
    const { Writable } = process.getBuiltinModule("node:stream");
    const open = (method = "GET"): InstanceType<typeof ServerResponse> => {
      const response = new ServerResponse({ method, headers: {}, httpVersionMajor: 1, httpVersionMinor: 1 } as never);
      response.assignSocket(new Writable({ write: (_chunk, _encoding, done) => done() }) as never);
      response.setHeader("first", "1");
      return response;
    };
    const codeOf = (run: () => unknown): unknown => {
      try {
        return run();
      } catch (error) {
        return (error as { code?: string }).code;
      }
    };

    const replaced = open();
    const calls: unknown[] = [];
    const { writeHead } = replaced;
    replaced.writeHead = function (this: typeof replaced, ...args: unknown[]) {
      calls.push(args);
      this.setHeader("late", "2");
      return Reflect.apply(writeHead, this, args) as typeof replaced;
    } as never;
    replaced.write("text");
    replaced.write("more");

    const ended = open();
    ended.statusCode = 404;
    const finished = new Promise((resolve) => ended.on("finish", () => resolve("finished")));
    ended.end("text");

    const written = open();
    written.writeHead(201, "Made", { A: "1", b: ["x", "y"] });
    const listed = open().writeHead(299, ["a", "1", "b", "2"] as never);
    const flushed = open("HEAD");
    flushed.flushHeaders();
    const header = (written as unknown as { readonly _header: string })._header;
    return [
      [calls, replaced.getHeaders(), replaced.statusMessage, replaced.connection === replaced.socket],
      [ended.headersSent, ended.statusMessage, ended.writableEnded, await finished],
      [written.statusCode, written.statusMessage, written.getHeaders()],
      [
        codeOf(() => written.writeHead(200)),
        codeOf(() => written.setHeader("z", "1")),
        codeOf(() => open().writeHead(99)),
      ],
      [listed.getHeaderNames(), listed.statusMessage],
      [flushed.headersSent, (flushed as unknown as { readonly _hasBody: boolean })._hasBody],
      [header.split("\r\n")[0], /\r\nDate: [^\r]+ GMT\r\n/.test(header), /\r\nA: 1\r\n/.test(header)],
    ];
  }, undefined);
});
