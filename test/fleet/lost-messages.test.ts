// Messages between a host and an executor that an interrupted connection has lost: the call ends soon or runs again, and does not wait for its
// timeout.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ToolResult } from "../../src/host/index.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { type NatsProxy, openNatsProxy, type PassingMessage } from "../support/nats-proxy.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const TOOLS: { readonly [name: string]: string } = {
  // The log keeps the result from being the only message.
  returns: "export default () => { console.log('begun'); return 1; }",
  asks: "export const capabilities = { kv: true }; export default async (_, { kv }) => (await kv.get('key')) ?? 'nothing'",
  streams: "export default async function* () { for (let n = 0; n < 2_000; n += 1) yield 'x'.repeat(1_024); }",
};

describe.skipIf(!hasNatsServer)("a message that is lost", () => {
  let fleet: Fleet;
  let proxy: NatsProxy;
  /** Which message is to be lost; only the first one is. */
  let isChosen: (message: PassingMessage) => boolean = () => false;
  let lost = 0;

  beforeAll(async () => {
    fleet = await openFleet({ executors: ["one"], silenceMs: 60_000 });
    proxy = await openNatsProxy(fleet.nats.port, (message) => {
      const isLost = lost === 0 && isChosen(message);
      if (isLost) lost += 1;
      return isLost;
    });
    for (const [name, source] of Object.entries(TOOLS))
      await fleet.host.addTool({ name, source }, name === "asks" ? { grant: ["kv"] } : {});
    await fleet.start("one", [], proxy.url);
  });
  afterAll(async () => {
    await fleet[Symbol.asyncDispose]();
    await proxy[Symbol.asyncDispose]();
  });

  const call = (toolName: string): Promise<ToolResult> =>
    fleet.host.execute({ id: toolName, toolName }, { timeoutMs: 300_000 });

  const CRASHED = { success: false, error: { code: "SANDBOX_CRASHED", details: { begun: true } } };
  const isResult: typeof isChosen = ({ message }) => message?.type === "ended";
  // A slow executor reports the start in a message of its own, and the host would then know that the call has begun.
  const isFirstOfCode: typeof isChosen = ({ message }) => message?.type === "started" || message?.type === "capability";
  const isAnswer: typeof isChosen = ({ type }) => type === "answer";

  test.for<readonly [what: string, tool: string, isOne: typeof isChosen, expected: object]>([
    ["that has the result of the executor's only call ends the call", "returns", isResult, CRASHED],
    ["that has a request lets the call run again, which has had no effect", "asks", isFirstOfCode, { success: true }],
    ["that has the answer to a request ends the call", "asks", isAnswer, CRASHED],
  ])("%s", async ([, tool, isOne, expected]) => {
    expect(await call(tool)).toMatchObject({ success: true });
    [isChosen, lost] = [isOne, 0];
    const result = await call(tool);
    expect(lost).toBe(1);
    expect(result).toMatchObject(expected);
    expect(await call(tool)).toMatchObject({ success: true });
  });

  test("a lost message that has the room for more chunks of a stream ends the call", async () => {
    [isChosen, lost] = [({ type }) => type === "credit", 0];
    let chunks = 0;
    let result: ToolResult | undefined;
    for await (const item of fleet.host.stream({ id: "s", toolName: "streams" }, { timeoutMs: 300_000 })) {
      if (item.type === "chunk") chunks += 1;
      else if (item.type === "result") result = item;
    }
    expect(lost).toBe(1);
    expect(chunks).toBeLessThan(2_000);
    expect(result).toMatchObject({ success: false, error: { code: "SANDBOX_CRASHED" } });
  });
});
