// Something that is iterated, not read, has no JSON; nobody may start to pull it.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";

testAttack("an iterator whose next loops", {
  source: `export default () => ({ [Symbol.asyncIterator]() { for (;;); }, [Symbol.iterator]() { for (;;); }, next() { for (;;); }, fine: 1 });`,
  codes: ["ok"],
  check: (result) => expect(outputOf(result)).toEqual({ fine: 1 }),
});
