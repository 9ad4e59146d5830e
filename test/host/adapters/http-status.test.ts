// toHttpStatus() and toRetryAfterSeconds(): the HTTP response of a failed call.
import { describe, expect, test } from "vitest";
import { toHttpStatus, toOpenApi, toRetryAfterSeconds } from "../../../src/host/index.ts";
import {
  ERROR_CODES,
  type ErrorCode,
  ToolError,
  UNAVAILABLE_REASONS,
  type UnavailableReason,
} from "../../../src/sandbox/contract/errors.ts";

const CODES = (Object.keys(ERROR_CODES) as ErrorCode[]).filter((code) => code !== "TOOL_UNAVAILABLE");
const REASONS = Object.keys(UNAVAILABLE_REASONS) as UnavailableReason[];
const because = (reason: string, more = {}): ToolError =>
  new ToolError("TOOL_UNAVAILABLE", "m", { details: { reason, ...more } });

describe("toHttpStatus()", () => {
  test.for(CODES)("%s has the status of its row", (code) => {
    expect(toHttpStatus(new ToolError(code, "m"))).toBe(ERROR_CODES[code].http);
    // Only TOOL_UNAVAILABLE has reasons from that table.
    expect(toHttpStatus({ code, details: { reason: "closed" } })).toBe(ERROR_CODES[code].http);
  });

  test.for<[UnavailableReason, status: number, recoverable: boolean]>([
    ["not_found", 404, false],
    ["session_ended", 404, false],
    ["tool_changed", 409, true],
    ["tenant_suspended", 403, false],
    ["closed", 503, false],
    ["shutting_down", 503, true],
    ["circuit_open", 503, true],
    ["upstream_unavailable", 503, true],
    ["needs_run", 409, false],
    ["engine_version", 409, false],
    ["unsupported", 503, false],
  ])("%s determines the status", ([reason, status, recoverable]) => {
    const error = because(reason);
    expect(toHttpStatus(error)).toBe(status);
    expect(toHttpStatus(error.toData("add"))).toBe(status);
    expect(error.recoverable).toBe(recoverable);
  });

  test("a taken name is a conflict", () => {
    expect(toHttpStatus({ code: "NAME_TAKEN" })).toBe(409);
  });

  test.for<[given: unknown, status: number]>([
    [{ code: "TOOL_UNAVAILABLE" }, 404],
    [{ code: "TOOL_UNAVAILABLE", details: { reason: "toString" } }, 404],
    [{ code: "TOOL_UNAVAILABLE", details: { reason: 5 } }, 404],
    [{ code: "constructor" }, 500],
    [new Error("m"), 500],
    [undefined, 500],
    [null, 500],
    ["TOOL_FAILED", 500],
    [Promise.resolve({ code: "TOOL_FAILED" }), 500],
    [
      {
        get code() {
          throw new Error("m");
        },
      },
      500,
    ],
    [Proxy.revocable({}, {}).proxy, 500],
  ])("%# accepts any value", ([given, status]) => {
    expect(toHttpStatus(given as never)).toBe(status);
    expect(toRetryAfterSeconds(given as never)).toBeUndefined();
  });
});

describe("toRetryAfterSeconds()", () => {
  test.for(REASONS)("%s has a value if the same call may succeed later", (reason) => {
    const { http, recoverable } = UNAVAILABLE_REASONS[reason];
    expect(toRetryAfterSeconds(because(reason))).toBe(http === 503 && recoverable ? 1 : undefined);
    expect(toRetryAfterSeconds(because(reason, { retryAfterMs: 4_200 }))).toBe(http === 503 ? 5 : undefined);
  });

  test.for<[details: object, seconds: number | undefined]>([
    [{ retryAfterMs: 1 }, 1],
    [{ retryAfterMs: 1_001 }, 2],
    [{ retryAfterMs: 0 }, 1],
    [{ retryAfterMs: -5 }, undefined],
    [{ retryAfterMs: Number.NaN }, undefined],
    [{ retryAfterMs: Number.POSITIVE_INFINITY }, undefined],
    [{ retryAfterMs: "5" }, undefined],
    [{}, undefined],
  ])("%j", ([details, seconds]) => {
    expect(toRetryAfterSeconds(because("closed", details))).toBe(seconds);
    expect(toRetryAfterSeconds({ code: "QUOTA_EXCEEDED", details } as never)).toBe(seconds);
  });

  test("OVERLOADED has a default of one second", () => {
    expect(toRetryAfterSeconds(new ToolError("OVERLOADED", "m"))).toBe(1);
    expect(toRetryAfterSeconds(new ToolError("OVERLOADED", "m", { details: { retryAfterMs: 4_200 } }))).toBe(5);
  });

  test.for(["PARAM_INVALID", "NAME_TAKEN", "INTERNAL", "TOOL_FAILED"] as const)("%s has no value", (code) => {
    expect(toRetryAfterSeconds({ code, details: { retryAfterMs: 1_000 } })).toBeUndefined();
  });
});

test("the OpenAPI document lists a status for every code and reason, and Retry-After with 429 and 503", () => {
  const { paths } = toOpenApi([{ name: "add", description: "", inputSchema: {} }]);
  const { responses } = (paths["/tools/add"] as { post: { responses: Record<string, { [key: string]: unknown }> } })
    .post;
  for (const code of CODES) expect(responses[ERROR_CODES[code].http]?.description).toContain(code);
  for (const reason of REASONS) {
    expect(responses[UNAVAILABLE_REASONS[reason].http]?.description).toContain(`TOOL_UNAVAILABLE (${reason})`);
  }
  const withHeader = Object.keys(responses).filter((status) => "headers" in (responses[status] as object));
  expect(withHeader).toEqual(["429", "503"]);
});
