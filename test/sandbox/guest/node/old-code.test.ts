// Compares what code for old versions of Node uses with Node's own: constructors that are none, internal bindings, and the module constants.
import { describe, test } from "vitest";
import { expectLikeNode } from "../../../support/guest.ts";

type Case = [why: string, run: () => unknown];

describe("code for old versions of Node", () => {
  test.for<Case>([
    [
      "calls functions of Buffer with new",
      () => {
        type Make = new (...args: unknown[]) => Buffer;
        const make = (name: "from" | "alloc" | "allocUnsafe" | "allocUnsafeSlow", ...args: unknown[]): Buffer =>
          new (Buffer[name] as unknown as Make)(...args);
        const made = [
          make("from", "hé", "utf8"),
          make("alloc", 2, 1),
          make("allocUnsafe", 3),
          make("allocUnsafeSlow", 4),
        ];
        return [made.map((buffer) => [Buffer.isBuffer(buffer), buffer.length]), made[0]?.toString("hex")];
      },
    ],
    [
      "formats objects that have an href",
      () => {
        const { format, parse } = process.getBuiltinModule("node:url");
        const endpoint = { ...parse("http://a.example:1/"), pathname: "/b/k", search: "?q=1" };
        return [format(endpoint), format(new URL("http://a.example/x?y#z"), { fragment: false })];
      },
    ],
    [
      "reads constants from a binding",
      () => {
        const { binding } = process as unknown as {
          binding(name: string): { [group: string]: { [n: string]: number } };
        };
        const { fs, os, crypto } = binding("constants");
        return [fs?.O_CREAT, (os as unknown as { errno: object }).errno, crypto?.RSA_PKCS1_PADDING];
      },
    ],
    [
      "reads the paddings of crypto from the module constants",
      () => {
        const constants = process.getBuiltinModule("node:constants" as never) as { [name: string]: unknown };
        return [
          constants.RSA_PKCS1_OAEP_PADDING,
          constants.RSA_PSS_SALTLEN_DIGEST,
          constants.O_RDONLY,
          constants.ENOENT,
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });
});
