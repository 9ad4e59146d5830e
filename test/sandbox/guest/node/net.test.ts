// Compares what node:net computes without a network (addresses and lists of them) in a guest with Node's own.
import { expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

test("BlockList decides on addresses like Node", async () => {
  await expectLikeNode(() => {
    const { BlockList, SocketAddress } = process.getBuiltinModule("node:net");
    const { inspect } = process.getBuiltinModule("node:util");
    const list = new BlockList();
    list.addAddress("123.123.123.123");
    list.addAddress("::1", "ipv6");
    list.addRange("10.0.0.1", "10.0.0.10");
    list.addRange("::f", "::ff", "ipv6");
    list.addRange(new SocketAddress({ address: "1.1.1.1" }), new SocketAddress({ address: "1.1.1.5" }));
    list.addSubnet("8592:757c:efae:4e45::", 64, "ipv6");
    list.addSubnet("1.2.3.4", 24);
    list.addSubnet("::ffff:9.0.0.0", 104, "ipv6");
    const checks = [
      ["123.123.123.123"],
      ["123.123.123.124"],
      ["::ffff:7b7b:7b7b", "ipv6"],
      ["::ffff:123.123.123.123", "ipv6"],
      ["10.0.0.0"],
      ["10.0.0.1"],
      ["10.0.0.10"],
      ["10.0.0.11"],
      ["1.1.1.3"],
      ["1.2.3.99"],
      ["1.2.4.0"],
      ["9.1.1.1"],
      ["::1", "ipv6"],
      ["::1", "IPV6"],
      ["::10", "ipv6"],
      ["::100", "ipv6"],
      ["8592:757c:efae:4e45:1::", "ipv6"],
      ["8592:757c:efae:4e46::", "ipv6"],
    ].map(([address = "", family]) => [address, list.check(address, family as never)]);
    const all = new BlockList();
    all.addSubnet("0.0.0.0", 0);
    const everything = [all.check("4.4.4.4"), all.check("::ffff:4.4.4.4", "ipv6"), all.check("::5", "ipv6")];
    all.addSubnet("::", 0, "ipv6");
    everything.push(all.check("::5", "ipv6"), all.check(new SocketAddress({ address: "9.9.9.9" })));
    return [checks, everything, list.rules, inspect(list), BlockList.isBlockList(list)];
  }, undefined);
});

test("BlockList rejects what Node rejects", async () => {
  await expectLikeNode(() => {
    const { BlockList } = process.getBuiltinModule("node:net");
    const list = new BlockList() as unknown as { [method: string]: (...args: unknown[]) => unknown };
    const calls: readonly [string, ...unknown[]][] = [
      ["addAddress", "zzz"],
      ["addAddress", "01.2.3.4"],
      ["addAddress", 5],
      ["addAddress", "1.2.3.4", "ipv5"],
      ["addAddress", "1.2.3.4", 4],
      ["addRange", "10.0.0.9", "10.0.0.1"],
      ["addRange", "10.0.0.9", "::1"],
      ["addSubnet", "1.1.1.1", 33],
      ["addSubnet", "1.1.1.1", 1.5],
      ["addSubnet", "::1", 129, "ipv6"],
      ["addSubnet", "1.1.1.1"],
      ["check", 5],
      ["check", "1.2.3.4", 5],
    ];
    return calls.map(([method, ...args]) => {
      try {
        return [method, list[method]?.(...args)];
      } catch (error) {
        const { code, message, name } = error as NodeJS.ErrnoException;
        return [method, code, message, name];
      }
    });
  }, undefined);
});

test("SocketAddress normalizes addresses like Node", async () => {
  await expectLikeNode(() => {
    const { SocketAddress } = process.getBuiltinModule("node:net");
    const { inspect } = process.getBuiltinModule("node:util");
    const options: unknown[] = [
      undefined,
      {},
      { address: "1.2.3.4", port: 80 },
      { port: "80" },
      { family: "ipv6" },
      { family: "IPv6", address: "::", flowlabel: 5 },
      ...[
        "2001:0DB8::0001",
        "2001:db8:0:0:1:0:0:0",
        "1:2:3:4:5:6:7:8",
        "1:0:3:4:5:6:7:8",
        "1:2:3:4:5:6:0:0",
        "0:0:3:4:5:6:7:8",
        "::ffff:1.2.3.4",
        "::1.2.3.4",
        "::ffff:0:1.2.3.4",
        "::f",
        "fe80::1%eth0",
      ].map((address) => ({ family: "ipv6", address })),
      { address: "x" },
      { address: "::1" },
      { address: "1.2.3.4.5" },
      { family: "ipv6", address: "1.2.3.4" },
      { family: "ipv6", address: "1::2::3" },
      { family: "ipv5" },
      { port: 70_000 },
      { port: "x" },
      { port: 1.5 },
      { flowlabel: -1 },
      { address: 5 },
      5,
      null,
    ];
    return options.map((one) => {
      try {
        const made = new SocketAddress(one as never);
        return [made.address, made.family, made.port, made.flowlabel, inspect(made), JSON.stringify(made)];
      } catch (error) {
        const { code, message, name } = error as NodeJS.ErrnoException;
        return [code, message, name];
      }
    });
  }, undefined);
});

test("SocketAddress.parse() reads what Node reads", async () => {
  await expectLikeNode(() => {
    const { SocketAddress } = process.getBuiltinModule("node:net");
    return ["1.2.3.4:90", "1.2.3.4", "[::1]:90", "[2001:DB8::]", "nope", "0x7f.1:5", "1.2.3.4:99999", ""].map((text) =>
      JSON.stringify(SocketAddress.parse(text) ?? null),
    );
  }, undefined);
});

/** Members that Node 24 lacks. The expected values are those of Node 26. */
test("BlockList has the members of Node 26", async () => {
  const value = await inGuest(() => {
    interface List {
      readonly rules: readonly string[];
      readonly size: number;
      addAddresses(addresses: readonly string[]): void;
      addCIDR(text: string): void;
      addCIDRs(texts: readonly string[]): void;
      removeAddress(text: string): void;
      removeSubnet(text: string, prefix: number): void;
      removeCIDR(text: string): void;
      clear(): void;
      fromJSON(data: unknown): void;
      check(text: string, family?: string): boolean;
    }
    const { BlockList } = process.getBuiltinModule("node:net") as unknown as {
      BlockList: { new (): List; PRIVATE_RANGES: readonly string[] };
    };
    const list = new BlockList();
    list.addCIDRs(BlockList.PRIVATE_RANGES);
    const isPrivate = ["10.1.1.1", "172.15.0.0", "172.31.0.1"].map((address) => list.check(address));
    const isUniqueLocal = list.check("fd00::1", "ipv6");
    const { size } = list;
    list.clear();
    list.addAddresses(["1.1.1.1", "2.2.2.2", "1.1.1.1"]);
    const others = ["bad", "::1", "::ffff:1.1.1.1"].map((address) => list.check(address));
    list.addCIDR("1.2.3.4/24");
    list.removeAddress("1.1.1.1");
    list.removeSubnet("1.2.3.0", 24);
    const rules = [...list.rules];
    list.removeCIDR("1.2.3.4/24");
    const left = [...list.rules];
    const fail = (run: () => void): unknown => {
      try {
        return run();
      } catch (error) {
        return (error as Error).message;
      }
    };
    const errors = [
      fail(() => list.addCIDR("1.2.3.4")),
      fail(() => list.addCIDR("1.2.3.4/x")),
      fail(() => list.addCIDRs(["5.5.5.0/24", "1.2.3.4/33"])),
    ];
    const copy = new BlockList();
    copy.fromJSON(["Subnet: IPv4 192.168.1.0/24", "Address: IPv6 ::1", "Range: IPv4 10.0.0.1-10.0.0.10", "other"]);
    copy.fromJSON('["Range: IPv6 ::1-::2"]');
    return [
      isPrivate,
      isUniqueLocal,
      others,
      JSON.stringify({ list }),
      size,
      rules,
      left,
      errors,
      list.rules,
      copy.rules,
    ];
  });
  expect(value).toEqual([
    [true, false, true],
    true,
    [false, false, false],
    '{"list":["Address: IPv4 2.2.2.2"]}',
    8,
    ["Address: IPv4 2.2.2.2", "Subnet: IPv4 1.2.3.4/24"],
    ["Address: IPv4 2.2.2.2"],
    [
      `The argument 'cidr' must contain a prefix length (e.g. "10.0.0.0/8"). Received '1.2.3.4'`,
      "The argument 'cidr' prefix length must be a valid integer. Received '1.2.3.4/x'",
      'The value of "prefix" is out of range. It must be >= 0 && <= 32. Received 33',
    ],
    ["Address: IPv4 2.2.2.2"],
    ["Address: IPv6 ::1", "Subnet: IPv4 192.168.1.0/24", "Range: IPv6 ::1-::2", "Range: IPv4 10.0.0.1-10.0.0.10"],
  ]);
});
