// Headers, FormData, Request and Response in a guest: what they give, against what Node's own give.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GuestTool, openGuest } from "../../support/guest.ts";
import {
  type Case,
  type Cases,
  FORM_BODY_CASES,
  FORM_DATA_CASES,
  HEADERS_CASES,
  REQUEST_CASES,
  RESPONSE_CASES,
} from "./fetch-cases.ts";

type Outcome = { readonly value: unknown } | { readonly error: string };

const sourceOf = (made: Case): string =>
  typeof made === "function" ? `(${made})()` : `(${made.run})(${JSON.stringify(made.input)})`;

/** The value as JSON, or the name of what was thrown. */
async function outcomeOf(made: Case): Promise<Outcome> {
  try {
    const value: unknown = typeof made === "function" ? await made() : await made.run(made.input as never);
    return { value: JSON.parse(JSON.stringify(value ?? null)) as unknown };
  } catch (error) {
    return { error: (error as Error).name };
  }
}

describe.for([
  ["Headers", HEADERS_CASES],
  ["FormData", FORM_DATA_CASES],
  ["Response", RESPONSE_CASES],
  ["Request", REQUEST_CASES],
  ["formData()", FORM_BODY_CASES],
] as readonly (readonly [string, Cases])[])("%s in a guest and in Node", ([, cases]) => {
  let tool: GuestTool;
  let outcomes: readonly Outcome[];
  beforeAll(async () => {
    const runs = Object.values(cases).map((made) => `async () => ${sourceOf(made)}`);
    tool = await openGuest(`async () => {
      const outcomes = [];
      for (const run of [${runs.join(",\n")}]) {
        try { outcomes.push({ value: (await run()) ?? null }); } catch (error) { outcomes.push({ error: error.name }); }
      }
      return outcomes;
    }`);
    const end = await tool.call<readonly Outcome[]>();
    outcomes = end.value ?? [];
  });
  afterAll(() => tool[Symbol.asyncDispose]());

  test.for(Object.entries(cases).map(([title, made], index) => [title, made, index] as const))(
    "%s",
    async ([, made, index]) => {
      expect(outcomes[index]).toEqual(await outcomeOf(made));
    },
  );
});
