// Tests the parsers of fetch's classes with random texts: URLs, MIME types and forms. Compares them with Node's where Node has the same
// parser.
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type GuestTool, openGuest } from "../../support/guest.ts";

const RUNS = 400;
/** A seeded generator, so that a failure is reproducible. */
const SEED = 7_654_321;
const sample = <Value>(values: fc.Arbitrary<Value>): Value[] => fc.sample(values, { numRuns: RUNS, seed: SEED });
const textOf = (words: readonly string[], maxLength = 8): fc.Arbitrary<string> =>
  fc.array(fc.constantFrom(...words), { maxLength }).map((parts) => parts.join(""));

async function nameOf(run: () => unknown): Promise<unknown> {
  try {
    return await run();
  } catch (error) {
    return (error as Error).name;
  }
}

interface Ask {
  readonly what: "url" | "mime" | "text" | "write" | "read";
  readonly texts: readonly string[];
}

/** Runs in the guest: reads each text as a URL, a type, bytes in hex, a form to encode (JSON), or the body of a form. */
async function answer({ what, texts }: Ask): Promise<unknown[]> {
  const toHex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
  const fromHex = (text: string) => new Uint8Array(Buffer.from(text, "hex"));
  const run = async (text: string): Promise<unknown> => {
    if (what === "url") return new Request(text).url;
    if (what === "mime") return (await new Response("", { headers: { "content-type": text } }).blob()).type;
    if (what === "text") return new Response(fromHex(text)).text();
    if (what === "write") {
      const form = new FormData();
      for (const [name, value, filename] of JSON.parse(text) as [string, string, string?][]) {
        if (filename === undefined) form.append(name, value);
        else form.append(name, new File([value], filename, { type: "x/y" }));
      }
      const response = new Response(form);
      return [response.headers.get("content-type"), toHex(await response.bytes())];
    }
    const [type, hex] = JSON.parse(text) as [string, string];
    const form = await new Response(fromHex(hex), { headers: { "content-type": type } }).formData();
    const shown = [...form].map(async ([name, value]) =>
      typeof value === "string" ? [name, value] : [name, await value.text(), value.name, value.type],
    );
    return Promise.all(shown);
  };
  const answers: unknown[] = [];
  for (const text of texts) {
    try {
      answers.push(await run(text));
    } catch (error) {
      answers.push((error as Error).name);
    }
  }
  return answers;
}

let tool: GuestTool;
beforeAll(async () => {
  tool = await openGuest(answer);
});
afterAll(() => tool[Symbol.asyncDispose]());

async function ask(what: Ask["what"], texts: readonly string[]): Promise<unknown[]> {
  const { value } = await tool.call<unknown[]>({ what, texts });
  return value;
}

describe("Request", () => {
  test("reads URLs as URL does, also without the parser", async () => {
    const scheme = fc.constantFrom("http://", "https://", "https:/", "HTTPS://", "http:", "ws://", "data:", "");
    const host = textOf(["a", "b-", ".", "1", "0x1", "xn--", "%61", "\u00e9", "_", "A", "localhost", "[::1]", "@"], 4);
    const port = fc.constantFrom("", "", "", ":80", ":443", ":8080", ":0", ":65535", ":65536", ":08", ":x");
    const path = textOf([
      "/",
      "a",
      ".",
      "..",
      "%2e",
      "%2E",
      "\\",
      "'",
      "~",
      ";",
      " ",
      "|",
      "%",
      "\u00e9",
      ":",
      "@",
      "[",
      "^",
    ]);
    const query = fc.oneof(
      fc.constant(""),
      textOf(["a=1", "&", "?", "'", '"', "/", "%20", " ", "\u00e9", "{", "`"]).map((text) => `?${text}`),
    );
    const hash = fc.constantFrom("", "", "#", "#x y", "#\u00e9");
    const urls = sample(fc.tuple(scheme, host, port, fc.oneof(fc.constant("/"), path), query, hash)).map((parts) =>
      parts.join(""),
    );
    const inNode = await Promise.all(urls.map((url) => nameOf(() => new Request(url).url)));
    expect(await ask("url", urls)).toEqual(inNode);
    expect(inNode.filter((url) => url !== "TypeError").length).toBeGreaterThan(RUNS / 4);
  });
});

describe("a body's type", () => {
  test("is parsed as in Node", async () => {
    const words = [
      "text",
      "/",
      "plain",
      ";",
      ",",
      "charset",
      "=",
      '"',
      "\\",
      " ",
      "\t",
      "UTF-8",
      "*",
      "x",
      "\u00ff",
      "A",
      '"a,b"',
      "text/html",
    ];
    const texts = sample(textOf(words, 12));
    const inNode = await Promise.all(
      texts.map((text) =>
        nameOf(async () => (await new Response("", { headers: { "content-type": text } }).blob()).type),
      ),
    );
    expect(await ask("mime", texts)).toEqual(inNode);
  });
});

describe("a body's text", () => {
  test("is decoded like any bytes at any offset", async () => {
    // Whole characters, and each malformed form: truncated, overlong, a surrogate, past the last code point, out of place.
    const pieces = [
      "61",
      "c3a9",
      "e282ac",
      "f09f9880",
      "efbbbf",
      "efbfbf",
      "f48fbfbf",
      "00",
      "80",
      "bf",
      "c3",
      "e2",
      "e282",
      "f0",
      "f09f",
      "f09f98",
      "c0af",
      "c1bf",
      "e08080",
      "e0a080",
      "eda080",
      "ed9fbf",
      "edbfbf",
      "f08080",
      "f0808080",
      "f08fbfbf",
      "f0908080",
      "f4908080",
      "f5",
      "ff",
    ];
    const padding = fc.constantFrom(0, 0, 1_020, 1_021, 1_022, 1_023, 1_024, 2_047, 4_000);
    const many = fc.constantFrom("", "", "", "80".repeat(1_100), "c3a9".repeat(1_100));
    const texts = sample(fc.tuple(padding, many, textOf(pieces, 12))).map(
      ([length, run, text]) => "78".repeat(length) + run + text,
    );
    const decoded = texts.map((hex) => new TextDecoder().decode(Buffer.from(hex, "hex")));
    expect(await ask("text", texts)).toEqual(decoded);
  });
});

type Entry = readonly [name: string, value: string, filename?: string];
const word = textOf(["a", '"', "%22", "\r", "\n", "\r\n", "\u00e9", "\u{1f600}", "-", "--", ";", "\\", " ", "="], 5);
/** Node does not write an empty file name. */
const filename = word.map((text) => text || "f");
const entry: fc.Arbitrary<Entry> = fc.oneof(fc.tuple(word, word), fc.tuple(word, word, filename));
const forms = (): Entry[][] => sample(fc.array(entry, { maxLength: 4 })).slice(0, 100);
const crlf = (text: string): string => text.replace(/\r\n|\r|\n/g, "\r\n");
/** Names are read back as written: escapes are kept. */
const escaped = (text: string): string => text.replaceAll("\n", "%0A").replaceAll("\r", "%0D").replaceAll('"', "%22");

describe("a form", () => {
  test("a form from the guest is parsed by Node", async () => {
    const made = forms();
    const written = (await ask(
      "write",
      made.map((form) => JSON.stringify(form)),
    )) as [string, string][];
    for (const [index, [type, hex]] of written.entries()) {
      const form = await new Response(Buffer.from(hex, "hex"), { headers: { "content-type": type } }).formData();
      const unescaped = (text: string): string =>
        text.replaceAll("%22", '"').replaceAll("%0D", "\r").replaceAll("%0A", "\n");
      const read = await Promise.all(
        [...form].map(async ([name, value]) =>
          typeof value === "string" ? [name, value] : [name, await value.text(), value.name],
        ),
      );
      const expected = made[index]?.map(([name, value, filename]) =>
        filename === undefined
          ? [unescaped(crlf(name)), crlf(value)]
          : [unescaped(crlf(name)), value, unescaped(filename)],
      );
      expect(read).toEqual(expected);
    }
  });

  test("a form from Node is parsed by the guest", async () => {
    const made = forms();
    const written = await Promise.all(
      made.map(async (entries) => {
        const form = new FormData();
        for (const [name, value, filename] of entries) {
          if (filename === undefined) form.append(name, value);
          else form.append(name, new File([value], filename, { type: "x/y" }));
        }
        const response = new Response(form);
        return JSON.stringify([
          response.headers.get("content-type"),
          Buffer.from(await response.bytes()).toString("hex"),
        ]);
      }),
    );
    const expected = made.map((entries) =>
      entries.map(([name, value, filename]) =>
        filename === undefined
          ? [escaped(crlf(name)), crlf(value)]
          : [escaped(crlf(name)), value, escaped(filename), "x/y"],
      ),
    );
    expect(await ask("read", written)).toEqual(expected);
  });

  test("a form that is damaged anywhere is parsed, or throws a TypeError", async () => {
    const whole =
      '--b\r\nContent-Disposition: form-data; name="a"; filename="f"\r\nContent-Type: x/y\r\n\r\nvalue\r\n--b--\r\n';
    const broken = sample(
      fc.tuple(
        fc.nat(whole.length),
        fc.nat(6),
        fc.constantFrom("", "\r\n", "\r", "\n", "--b", "--b--", '"', "\0", ":", "\u00ff"),
      ),
    ).map(([at, length, text]) => whole.slice(0, at) + text + whole.slice(at + length));
    const texts = broken.map((body) =>
      JSON.stringify(["multipart/form-data; boundary=b", Buffer.from(body, "latin1").toString("hex")]),
    );
    for (const [index, read] of (await ask("read", texts)).entries()) {
      expect([broken[index], Array.isArray(read) || read === "TypeError"]).toEqual([broken[index], true]);
    }
  });

  /** Cases in which Node differs from the current standard, with the result of the standard. */
  test.for([
    ["a%0Ab%22", "a%0Ab%22", "escapes are not undone"],
    ["_charset_", "_charset_", "no name is special"],
  ] as const)("has the name %s as it is: %s, since %s", async ([name, expected]) => {
    const body = `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\nx--b\r\n--b-- \t\r\nwhat follows`;
    const text = JSON.stringify(["multipart/form-data; boundary=b", Buffer.from(body).toString("hex")]);
    expect(await ask("read", [text])).toEqual([[[expected, "x--b"]]]);
  });
});
