// Tests of ERROR_CODES and ToolError: each code has a complete policy, and the plain data contains nothing internal.
import { describe, expect, test } from "vitest";
import {
  ERROR_CODES,
  type ErrorCode,
  type ErrorPolicy,
  ToolError,
  toToolError,
} from "../../src/sandbox/contract/errors.ts";

const ROWS = Object.entries(ERROR_CODES) as [ErrorCode, ErrorPolicy][];

describe("ERROR_CODES", () => {
  test.for(ROWS)("%s has a message for users and an error status", ([, { userMessage, http }]) => {
    expect(userMessage).toMatch(/^(\{tool\}|[A-Z])/);
    expect(userMessage).not.toMatch(/\.$/);
    expect(http).toBeGreaterThanOrEqual(400);
    expect(http).toBeLessThan(600);
  });

  test("contains the four codes of the contract", () => {
    expect(Object.keys(ERROR_CODES)).toEqual(
      expect.arrayContaining(["TOOL_UNAVAILABLE", "TOOL_TIMEOUT", "TOOL_FAILED", "PARAM_INVALID"]),
    );
  });
});

describe("ToolError", () => {
  test.for(ROWS)("%s takes its policy from the row", ([code, policy]) => {
    const error = new ToolError(code, "Expected one, got two");
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe("ToolError");
    expect(error.policy).toBe(policy);
    expect(error.recoverable).toBe(policy.recoverable);
  });

  test("lets an error override recoverable", () => {
    expect(new ToolError("TOOL_UNAVAILABLE", "m", { recoverable: true }).toData("add").recoverable).toBe(true);
  });

  test("keeps its cause out of its data", () => {
    const cause = new Error("/home/secret");
    const error = new ToolError("INTERNAL", "m", { cause });
    expect(error.cause).toBe(cause);
    expect("cause" in new ToolError("INTERNAL", "m")).toBe(false);
    expect(JSON.stringify(error.toData("add"))).not.toContain("secret");
  });
});

describe("ToolError.toData()", () => {
  test.for<[name: string]>([["add"], ["$&"], ["$1$`$'"], ["{tool}"]])(
    "inserts the tool name %j in the message for users",
    ([name]) => {
      const data = new ToolError("TOOL_FAILED", "m").toData(name);
      expect(data.userMessage).toBe(ERROR_CODES.TOOL_FAILED.userMessage.split("{tool}").join(name));
    },
  );

  test("says in the message for users that the call has no tool name", () => {
    expect(new ToolError("PARAM_INVALID", "m").toData("").userMessage).toBe("The input for (no name) is not valid");
  });

  test("omits keys without a value", () => {
    expect(Object.keys(new ToolError("TOOL_FAILED", "m").toData("t")).sort()).toEqual([
      "code",
      "docs",
      "message",
      "recoverable",
      "userMessage",
    ]);
  });

  test("contains the guest's stack and never the host's", () => {
    const error = new ToolError("TOOL_FAILED", "m", {
      guestStack: "Error: m\n    at tool.ts:1:1",
      details: { a: [1] },
    });
    const data = error.toData("t");
    expect(data.stack).toBe("Error: m\n    at tool.ts:1:1");
    expect(data.details).toEqual({ a: [1] });
    expect(JSON.stringify(data)).not.toContain(import.meta.dirname);
  });
});

describe("toToolError()", () => {
  test("returns a ToolError unchanged", () => {
    const error = new ToolError("CANCELLED", "m");
    expect(toToolError(error)).toBe(error);
  });

  test.for<[thrown: unknown]>([[new Error("secret")], ["secret"], [undefined], [null], [{ code: "TOOL_FAILED" }]])(
    "wraps %j in an INTERNAL error with a neutral message",
    ([thrown]) => {
      const error = toToolError(thrown);
      expect(error.code).toBe("INTERNAL");
      expect(error.cause).toBe(thrown);
      expect(error.message).not.toContain("secret");
    },
  );
});
