// Conversations as data: finding problems, mending and trimming.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  checkConversation,
  type Message,
  repairConversation,
  trimConversation,
} from "../../../src/host/agent/index.ts";
import { NO_USAGE } from "../../../src/host/contract/tool-call.ts";
import { call } from "../../support/scripted-model.ts";

const user: Message = { role: "user", content: "hello" };
const system: Message = { role: "system", content: "be brief" };
const calls = (...ids: readonly string[]): Message => ({
  role: "assistant",
  content: ids.map((id) => ({ type: "tool-call", call: call(id, "tool") })),
});
const answer = (callId: string, output = callId): Message => ({
  role: "tool",
  callId,
  toolName: "tool",
  result: { callId, toolName: "tool", durationMs: 1, usage: NO_USAGE, logs: [], success: true, output },
});
const shape = (messages: readonly Message[]): readonly string[] =>
  messages.map((message) => (message.role === "tool" ? `${message.callId}:${message.result.success}` : message.role));

describe("checkConversation()", () => {
  const cases: readonly (readonly [string, readonly Message[], readonly string[]])[] = [
    ["nothing", [], []],
    ["each call answered, in any order", [user, calls("a", "b"), answer("b"), answer("a"), user], []],
    ["the same id in two turns", [calls("a"), answer("a"), calls("a"), answer("a")], []],
    ["no answer", [user, calls("a", "b"), answer("a")], ["unanswered-call b 1"]],
    ["an answer that comes too late", [calls("a"), user, answer("a")], ["unanswered-call a 0", "stray-answer a 2"]],
    ["two answers", [calls("a"), answer("a"), answer("a")], ["repeated-answer a 2"]],
    ["an answer before anything", [answer("a"), user], ["stray-answer a 0"]],
    ["one id for two calls", [calls("a", "a"), answer("a")], ["repeated-call-id a 0"]],
  ];
  test.for(cases)("%s", ([, messages, expected]) => {
    const found = checkConversation(messages).map(
      ({ kind, callId, messageIndex }) => `${kind} ${callId} ${messageIndex}`,
    );
    expect(found).toEqual(expected);
  });
});

const ids = fc.constantFrom("a", "b", "c");
const anyMessage: fc.Arbitrary<Message> = fc.oneof(
  fc.constantFrom(user, system),
  fc.array(ids, { maxLength: 3 }).map((each) => calls(...each)),
  ids.map((id) => answer(id)),
);

describe("repairConversation()", () => {
  test("returns a valid conversation unchanged", () => {
    const messages = [user, calls("a"), answer("a")];
    expect(repairConversation(messages)).toBe(messages);
  });

  test("answers unanswered calls, keeps the first of several answers, drops answers without a call", () => {
    const messages = [answer("z"), user, calls("a", "b"), answer("b", "first"), answer("b", "second"), user];
    const repaired = repairConversation(messages);
    expect(shape(repaired)).toEqual(["user", "assistant", "a:false", "b:true", "user"]);
    expect(repaired[2]).toMatchObject({ result: { error: { code: "CANCELLED" } } });
    expect(repaired[3]).toMatchObject({ result: { output: "first" } });
  });

  test("makes any conversation valid, and drops only surplus answers", () => {
    fc.assert(
      fc.property(fc.array(anyMessage, { maxLength: 12 }), (messages) => {
        const repaired = repairConversation(messages);
        expect(checkConversation(repaired)).toEqual([]);
        const spoken = (of: readonly Message[]): number => of.filter(({ role }) => role !== "tool").length;
        expect(spoken(repaired)).toBe(spoken(messages));
        expect(repairConversation(repaired)).toBe(repaired);
      }),
    );
  });
});

describe("trimConversation()", () => {
  test("drops whole exchanges, oldest first, until the rest fits", () => {
    const messages = [system, user, calls("a"), answer("a"), user, calls("b"), answer("b"), user];
    expect(trimConversation(messages, (kept) => kept.length <= 8)).toBe(messages);
    expect(shape(trimConversation(messages, (kept) => kept.length <= 7))).toEqual([
      "system",
      "user",
      "assistant",
      "b:true",
      "user",
    ]);
    expect(shape(trimConversation(messages, (kept) => kept.length <= 2))).toEqual(["system", "user"]);
    expect(shape(trimConversation(messages, () => false))).toEqual(["system", "user"]);
  });

  test("keeps a valid conversation valid", () => {
    fc.assert(
      fc.property(fc.array(anyMessage, { maxLength: 12 }), fc.nat(12), (messages, most) => {
        const whole = repairConversation(messages);
        expect(checkConversation(trimConversation(whole, (kept) => kept.length <= most))).toEqual([]);
      }),
    );
  });
});
