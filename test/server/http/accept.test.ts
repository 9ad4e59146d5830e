import { expect, test } from "vitest";
import { prefersEvents } from "../../../src/server/http/routes/call-headers.ts";

test.for([
  ["text/event-stream", true],
  ["Text/Event-Stream; charset=utf-8", true],
  ["application/json, text/event-stream", true],
  ["application/json;q=0.5, text/event-stream", true],
  ["*/*, text/event-stream;q=0.1", true],
  ["application/json, text/event-stream;q=0.9", false],
  ["text/event-stream;q=0", false],
  ["text/event-stream; q=0.0, */*", false],
  ["text/event-stream;q=none", false],
  ["text/event-streams", false],
  ["*/*", false],
  ["text/*", false],
  ["", false],
  [undefined, false],
] as const)("Accept: %s requests events: %s", ([accept, expected]) => {
  expect(prefersEvents(accept)).toBe(expected);
});
