// Groups, counters and timers of the console belong to one call. A warm isolate must not carry them over.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("a console left open", {
  isolateLifetime: "tool",
  source: `export default () => { console.group('group'); console.count('calls'); console.time('t'); console.group(); console.log('line'); return 1; };`,
  play: async ({ run }) => {
    const first = await run();
    const second = await run();
    return [first, second].map(({ logs }) => logs.map(({ message }) => message));
  },
  judge: ([first, second]) => expect(second).toEqual(first),
});
