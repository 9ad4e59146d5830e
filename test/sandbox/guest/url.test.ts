// Compares URL and URLSearchParams in a guest with Node's own.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { expectLikeNode, type GuestTool, openGuest } from "../../support/guest.ts";

type Input = readonly [url: string, base?: string];

function parse([url, base]: Input): unknown {
  const canParse = URL.canParse(url, base);
  const parsed = URL.parse(url, base)?.href ?? null;
  try {
    const made = new URL(url, base);
    const { href, origin, protocol, username, password, host, hostname, port, pathname, search, hash } = made;
    const parts = { href, origin, protocol, username, password, host, hostname, port, pathname, search, hash };
    return {
      ...parts,
      params: [...made.searchParams],
      text: String(made),
      json: JSON.stringify(made),
      canParse,
      parsed,
    };
  } catch (error) {
    return { error: (error as Error).name, canParse, parsed };
  }
}

const INPUTS: readonly Input[] = [
  ["https://example.com"],
  ["https://example.com/"],
  ["HTTPS://EXAMPLE.COM:443/A/../B/./C?q=1#h"],
  ["http://example.com:80/"],
  ["http://example.com:8080/"],
  ["http://user:pass@example.com/"],
  ["http://us%20er:p%40ss@example.com/"],
  ["http://user@/"],
  ["http://:@example.com/"],
  ["http://a:b:c@d/"],
  ["ftp://example.com:21/x"],
  ["ws://example.com:80"],
  ["wss://example.com:443/x"],
  ["file:///etc/passwd"],
  ["file://host/share"],
  ["file:C:/x/y"],
  ["file:///C|/x"],
  ["mailto:a@b.c"],
  ["data:text/plain,hello world#x y"],
  ["javascript:alert(1)"],
  ["about:blank"],
  ["blob:https://example.com/uuid"],
  ["urn:isbn:1"],
  ["custom://host/path?q#h"],
  ["custom:opaque path"],
  [""],
  [" "],
  ["x"],
  ["/x"],
  ["//x"],
  ["http:"],
  ["http://"],
  ["http:///x"],
  ["http:x"],
  ["https:/x"],
  ["://x"],
  ["1http://x"],
  ["ht tp://x"],
  [" \t\n https://exa\tmple.com/a\nb "],
  ["https://example.com\\a\\b"],
  ["https:\\\\example.com\\x"],
  ["https://example.com/a b?c d#e f"],
  ["https://example.com/%zz%41%"],
  ["https://example.com/é?é#é"],
  ["https://example.com/?q='\"<>`{}|^"],
  ["https://example.com/'\"<>`{}|^"],
  ["https://example.com/#'\"<>`{}|^"],
  ["custom://h/?q='"],
  ["http://127.0.0.1/"],
  ["http://127.1/"],
  ["http://0x7f.1/"],
  ["http://0177.0.0.1/"],
  ["http://2130706433/"],
  ["http://0x7f000001/"],
  ["http://256.1.1.1/"],
  ["http://1.2.3.4.5/"],
  ["http://1.2.3.08/"],
  ["http://0/"],
  ["http://4294967295/"],
  ["http://4294967296/"],
  ["http://1.2.3./"],
  ["http://1.2.3.4./"],
  ["http://0xg/"],
  ["http://foo.0x4/"],
  ["http://１２７.0.0.1/"],
  ["http://[::1]/"],
  ["http://[::]/"],
  ["http://[1:2:3:4:5:6:7:8]/"],
  ["http://[1::8]/"],
  ["http://[::ffff:1.2.3.4]/"],
  ["http://[2001:DB8:0:0:1:0:0:1]/"],
  ["http://[::1%25eth0]/"],
  ["http://[1:2]/"],
  ["http://[::1/"],
  ["http://[g::1]/"],
  ["http://[::1]:8080/"],
  ["http://[0:0:0:0:0:0:13.1.68.3]/"],
  ["http://münchen.example/"],
  ["http://MÜNCHEN.example/"],
  ["http://xn--mnchen-3ya.example/"],
  ["http://xn--/"],
  ["http://xn--a/"],
  ["http://日本語.jp/"],
  ["http://faß.de/"],
  ["http://ex\u00adample.com/"],
  ["http://a\u200db/"],
  ["http://☃.net/"],
  ["http://exa%6dple.com/"],
  ["http://%C3%A4.example/"],
  ["http://ex%00ample/"],
  ["http://exa mple/"],
  ["http://exa<mple/"],
  ["http://a..b/"],
  ["http://-a-/"],
  ["http://a_b/"],
  ["http://ｅｘａｍｐｌｅ.com/"],
  ["http://example.com:0/"],
  ["http://example.com:65535/"],
  ["http://example.com:65536/"],
  ["http://example.com:/"],
  ["http://example.com:8x/"],
  ["http://example.com:-1/"],
  ["x", "https://example.com/a/b/c?d#e"],
  ["../x", "https://example.com/a/b/c"],
  ["../../../../x", "https://example.com/a/b"],
  ["./", "https://example.com/a/b"],
  ["..", "https://example.com/a/b/"],
  ["?x", "https://example.com/a?b#c"],
  ["#x", "https://example.com/a?b#c"],
  ["", "https://example.com/a?b#c"],
  ["//other/x", "https://example.com/a"],
  ["/x", "https://example.com/a/b"],
  ["\\x", "https://example.com/a/b"],
  ["http:x", "http://example.com/a/b"],
  ["https:x", "http://example.com/a/b"],
  ["mailto:x", "http://example.com"],
  ["x", "mailto:y"],
  ["#x", "mailto:y"],
  ["x", "nonsense"],
  ["%2e%2E/x", "https://example.com/a/b/c"],
  ["C|/x", "file:///D:/y"],
  ["/..//localhost//x", "file:///C:/y"],
  ["..", "custom://h/a/b/"],
  ["https://example.com/?a=1&a=2&b=%20+&=x&y=&z"],
  ["https://example.com/?%E4%F6=%zz&a=%F0%9F%98%80"],
  ["https://example.com/?&&&"],
  ["https://example.com/?a=b=c"],
  ["https://example.com/\ud800?\udc00"],
];

describe("URL", () => {
  let guest: GuestTool;
  beforeAll(async () => {
    guest = await openGuest(`(inputs) => inputs.map(${parse})`);
  });
  afterAll(() => guest[Symbol.asyncDispose]());

  test("has a table of more than a hundred", () => {
    expect(INPUTS.length).toBeGreaterThan(120);
  });

  test.for(INPUTS)("parses %j as Node does (base %j)", async (input) => {
    const end = await guest.call([input]);
    expect(end.outcome).toBe("output");
    expect(end.value).toEqual(JSON.parse(JSON.stringify([parse(input)])));
  });

  test("parses any web URL as Node does", async () => {
    const piece = fc.string({ unit: fc.constantFrom(..."abc019.:/?#@[]%+&= \\é"), maxLength: 16 });
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.webUrl({ withFragments: true, withQueryParameters: true }),
          piece.map((text) => `http://h/${text}`),
          piece.map((text) => `http://${text}`),
        ),
        async (url) => {
          expect((await guest.call([[url]])).value).toEqual(JSON.parse(JSON.stringify([parse([url])])));
        },
      ),
      { numRuns: 200 },
    );
  });

  test.for<[part: string, value: string]>([
    ["href", "http://other/x"],
    ["protocol", "http"],
    ["protocol", "ftp:"],
    ["protocol", "custom"],
    ["username", "a b"],
    ["password", "p:@"],
    ["host", "other:1"],
    ["host", "other:x"],
    ["host", ""],
    ["hostname", "o ther"],
    ["hostname", "ö"],
    ["hostname", "[::1]"],
    ["port", "1"],
    ["port", "443"],
    ["port", "99999"],
    ["port", "1x"],
    ["port", ""],
    ["pathname", "x/../y z"],
    ["pathname", ""],
    ["search", "?a b"],
    ["search", ""],
    ["search", "x"],
    ["hash", "h h"],
    ["hash", ""],
  ])("sets %s = %j as Node does", async ([part, value]) => {
    await expectLikeNode(
      ([key, text]: readonly [string, string]) => {
        const url = new URL("https://user:pw@example.com:8443/a/b?c=d#e") as unknown as { [part: string]: string };
        url[key] = text;
        return url.href;
      },
      [part, value] as const,
    );
  });

  test("a URL and its searchParams reflect each other", async () => {
    await expectLikeNode(() => {
      const url = new URL("https://example.com/?a=1&b=2#h");
      const seen: string[] = [];
      url.searchParams.append("c", "ä &=");
      seen.push(url.href);
      url.searchParams.delete("a");
      seen.push(url.href);
      url.searchParams.set("b", "+");
      seen.push(url.href);
      url.search = "?z=1&y=2&z=3";
      seen.push(url.searchParams.getAll("z").join());
      url.searchParams.sort();
      seen.push(url.href);
      url.href = "https://other/?q";
      seen.push([...url.searchParams.keys()].join());
      return seen;
    }, undefined);
  });

  test("cannot be called without new, and its errors name it", async () => {
    await expectLikeNode(() => {
      const fields = (run: () => unknown): unknown => {
        try {
          return run();
        } catch (error) {
          const { name, code, input, base } = error as { readonly [field: string]: unknown };
          return [name, code, input, base ?? "none"];
        }
      };
      const name = (run: () => unknown): string => {
        try {
          return typeof run();
        } catch (error) {
          return (error as Error).name;
        }
      };
      return [
        name(() => (URL as unknown as (url: string) => unknown)("http://x")),
        name(() => new (URL as unknown as new () => unknown)()),
        name(() => new URL("x")),
        fields(() => new URL("x")),
        fields(() => new URL("x", "y")),
        Object.prototype.toString.call(new URL("http://x")),
        typeof URL.canParse,
        URL.parse("x"),
      ];
    }, undefined);
  });
});

describe("URLSearchParams", () => {
  test.for<[why: string, init: unknown]>([
    ["text", "a=1&b=2&a=3"],
    ["text with a question mark", "?a=1"],
    ["percent and plus", "a+b=%41%zz+%E4%BD%A0"],
    ["a record", { a: "1", "b c": "ä" }],
    [
      "pairs",
      [
        ["a", "1"],
        ["a", "2"],
        ["", ""],
      ],
    ],
    ["invalid pairs", [["a"]]],
    ["nothing", ""],
    ["odd characters", "~!*'()=%00\n"],
  ])("is created from %s as in Node", async ([, init]) => {
    await expectLikeNode((given: unknown) => {
      try {
        const params = new URLSearchParams(given as string);
        return {
          text: String(params),
          size: params.size,
          entries: [...params],
          a: params.get("a"),
          all: params.getAll("a"),
          has: params.has("a", "2"),
          none: params.get("x"),
        };
      } catch (error) {
        return (error as Error).name;
      }
    }, init);
  });

  test("is modified as in Node", async () => {
    await expectLikeNode(() => {
      const params = new URLSearchParams("b=2&a=1&b=3&c=4");
      params.append("a", "5");
      params.delete("b", "3");
      params.set("c", "6");
      params.sort();
      const each: string[] = [];
      params.forEach((value, key) => {
        each.push(`${key}=${value}`);
      });
      return [String(params), each, [...params.keys()], [...params.values()], params.size];
    }, undefined);
  });

  test("parses and serializes any pairs as Node does", async () => {
    const run = (pairs: [string, string][]): unknown => {
      const text = String(new URLSearchParams(pairs));
      return [text, [...new URLSearchParams(text)]];
    };
    await using guest = await openGuest(run);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.string({ unit: "binary", maxLength: 8 }), fc.string({ unit: "binary", maxLength: 8 })), {
          maxLength: 5,
        }),
        async (pairs) => {
          expect((await guest.call(pairs)).value).toEqual(run(pairs));
        },
      ),
      { numRuns: 100 },
    );
  });
});
