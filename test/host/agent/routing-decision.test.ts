// Reads a decision from an untrusted reply: exactly one { tool, inputs }, or the problem.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readCallAsDecision, readDecision } from "../../../src/host/agent/router/routing-decision.ts";
import { expectLinearTime } from "../../support/processes.ts";

const ADD = '{"tool": "add", "inputs": {"a": 1}}';
const decided = { decision: { tool: "add", inputs: { a: 1 } } };

describe("readDecision()", () => {
  test.for([
    ["bare", ADD],
    ["with blanks", `\n\n  ${ADD}\n`],
    ["in a fence", `\`\`\`json\n${ADD}\n\`\`\``],
    ["in a fence without a language", `\`\`\`\n${ADD}\`\`\``],
    ["with prose around it", `Sure! The user's wish is to "add":\n${ADD}\nLet me know {if} that helps.`],
    ["after another object that chooses nothing", `{"thought": "let's add"} ${ADD}`],
    ["after a brace in prose", `Use {x}: ${ADD}`],
    ["twice, the same", `${ADD}\n${ADD}`],
    ["in an array", `[${ADD}]`],
    ["as JSON text in JSON", JSON.stringify(ADD)],
    ["with inputs as JSON text", '{"tool":"add","inputs":"{\\"a\\":1}"}'],
    ["with an additional field", '{"tool":"add","inputs":{"a":1},"confidence":0.9}'],
    ["with braces and quotes in strings", `{"thought":"a } and a \\" and a {"} ${ADD}`],
  ] as const)("reads one %s", ([, reply]) => expect(readDecision(reply)).toEqual(decided));

  test("reads none, with or without inputs", () => {
    for (const reply of ['{"tool":"none"}', '{"tool":"none","inputs":{}}', '{"tool":"none","inputs":null,"why":"x"}']) {
      expect(readDecision(reply)).toEqual({ decision: { tool: "none", inputs: {} } });
    }
  });

  test("reads a tool without inputs as one with empty inputs", () => {
    expect(readDecision('{"tool":"ping"}')).toEqual({ decision: { tool: "ping", inputs: {} } });
  });

  test.for([
    ["nothing", ""],
    ["prose", "I would use add."],
    ["two different decisions", `${ADD} or {"tool":"remove","inputs":{}}`],
    ["the same tool with other inputs", `${ADD} {"tool":"add","inputs":{"a":2}}`],
    ["no tool", '{"inputs":{}}'],
    ["a tool that is not a string", '{"tool":5,"inputs":{}}'],
    ["inputs under another name", '{"tool":"add","args":{"a":1}}'],
    ["inputs that are a list", '{"tool":"add","inputs":[1]}'],
    ["inputs that are invalid JSON", '{"tool":"add","inputs":"a=1"}'],
    ["a truncated object", '{"tool":"add","inputs":{"a":1'],
    ["a decision in the inputs of a truncated one", '{"tool":"safe","inputs":{"tool":"add","inputs":{"a":1}}'],
    ["a decision in the inputs of invalid JSON", `{"tool":"safe","inputs":${ADD},}`],
    ["a __proto__ key", '{"tool":"add","inputs":{"__proto__":{"admin":true}}}'],
    ["a number out of range", '{"tool":"add","inputs":{"a":1e999}}'],
    ["too much", `${" ".repeat(200_000)}${ADD}`],
  ] as const)("has a problem with %s", ([, reply]) => {
    expect(readDecision(reply)).toEqual({ problem: expect.stringMatching(/^Expected/) });
  });

  test("never takes a decision out of another one's inputs", () => {
    const outer = (inputs: unknown): string => JSON.stringify({ tool: "outer", inputs });
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.nat(200), fc.string(), (inputs, cut, prose) => {
        const reply = outer({ ...inputs, tool: "inner", inputs: {} });
        const reading = readDecision(`${prose}${reply.slice(0, reply.length - (cut % reply.length))}`);
        if ("decision" in reading) expect(reading.decision.tool).not.toBe("inner");
      }),
    );
  });

  test("reads any text, in linear time", () => {
    fc.assert(fc.property(fc.string({ maxLength: 500 }), (reply) => void readDecision(reply)));
    for (const text of ["{", "}{", '{"', '{"a":', "[{", '{"tool":"x"'])
      expectLinearTime((size) => readDecision(text.repeat(size / text.length)), 1_250);
  });
});

test("readCallAsDecision() reads a tool call as a decision", () => {
  expect(readCallAsDecision("add", { a: 1 }, "")).toEqual(decided);
  expect(readCallAsDecision("add", undefined, '{"a":1}')).toEqual(decided);
  expect(readCallAsDecision("add", undefined, " ")).toEqual({ decision: { tool: "add", inputs: {} } });
  expect(readCallAsDecision("add", [1], "")).toHaveProperty("problem");
  expect(readCallAsDecision("add", undefined, "{")).toHaveProperty("problem");
});
