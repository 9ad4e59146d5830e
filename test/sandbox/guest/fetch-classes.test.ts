// Compares Headers, FormData, Request and Response in a guest with Node's own.
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

/** Returns the value as JSON, or the name of the exception. */
async function outcomeOf(made: Case): Promise<Outcome> {
  try {
    const value: unknown = typeof made === "function" ? await made() : await made.run(made.input as never);
    return { value: JSON.parse(JSON.stringify(value ?? null)) as unknown };
  } catch (error) {
    return { error: (error as Error).name };
  }
}

/** Cases in which the fetch of Node 24 differs: it has no `textStream`, and the chunks of a clone are not copies. */
const CHANGED_IN_NODE_26: ReadonlySet<string> = new Set([
  "textStream",
  "textStream uses the body",
  "a clone's chunks share no memory",
  "members are enumerable",
]);
const IS_OLDER_NODE = !("textStream" in Response.prototype);

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
    async ([title, made, index], { skip }) => {
      if (IS_OLDER_NODE && CHANGED_IN_NODE_26.has(title)) skip("the fetch of this Node is older than the guest's");
      expect(outcomes[index]).toEqual(await outcomeOf(made));
    },
  );
});
