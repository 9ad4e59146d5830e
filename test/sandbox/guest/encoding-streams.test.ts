// Compares TextEncoderStream, TextDecoderStream and the legacy encodings in a guest with Node's own.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, runGuest } from "../../support/guest.ts";

describe("TextEncoderStream", () => {
  test.for<[chunks: readonly string[]]>([
    [["a", "", "ä€😀"]],
    [["\ud83d", "\ude00"]],
    [["x\ud83d", "", "\ude00y"]],
    [["\ud83d", "x"]],
    [["\ud83d", "\ud83d", "\ude00"]],
    [["\ude00"]],
    [["x\ud83d"]],
  ])("encodes %j", ([chunks]) =>
    expectLikeNode(async (given) => {
      const bytes: number[] = [];
      const stream = ReadableStream.from(given).pipeThrough(new TextEncoderStream() as never);
      for await (const chunk of stream) bytes.push(...(chunk as Uint8Array));
      return bytes;
    }, chunks),
  );
});

interface Case {
  readonly label: string;
  readonly fatal?: boolean;
  readonly chunks: readonly (readonly number[])[];
}

describe("TextDecoderStream", () => {
  test.for<Case>([
    { label: "utf-8", chunks: [[0xf0, 0x9f], [], [0x98, 0x80, 0x61]] },
    { label: "utf-8", chunks: [[0xef, 0xbb, 0xbf, 0x61]] },
    { label: "utf-8", chunks: [[0x61, 0xf0]] },
    { label: "utf-8", fatal: true, chunks: [[0x61], [0xf0]] },
    { label: "utf-8", fatal: true, chunks: [[0xff]] },
    { label: "utf-16le", chunks: [[0x61], [0, 0x3d, 0xd8], [0, 0xde]] },
    { label: "shift_jis", chunks: [[0x82], [0xa0, 0x83], [0x41]] },
    { label: "koi8-r", chunks: [[0xcd, 0xc9, 0xd2]] },
  ])("decodes %j", (given) =>
    expectLikeNode(async ({ label, fatal = false, chunks }) => {
      const texts: string[] = [];
      const stream = new TextDecoderStream(label, { fatal });
      const bytes = ReadableStream.from(chunks.map((chunk) => Uint8Array.from(chunk)));
      try {
        for await (const text of bytes.pipeThrough(stream as never)) texts.push(text as string);
      } catch (error) {
        texts.push((error as Error).name);
      }
      return [texts.join("|"), stream.encoding, stream.fatal, stream.ignoreBOM];
    }, given),
  );
});

describe("TextDecoder", () => {
  const LABELS = ["koi8-u", "ISO-8859-15", "macintosh", "windows-1251", "windows-874", "x-mac-cyrillic", " \tKOI8-R\n"];

  test.for(LABELS)("decodes every byte of %j as Node does", (label) =>
    expectLikeNode((name) => {
      const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
      const decoder = new TextDecoder(name);
      return [decoder.encoding, decoder.decode(bytes.subarray(0, 200), { stream: true }), decoder.decode(bytes)];
    }, label),
  );

  // For malformed input Node follows ICU, and the guest follows the standard.
  test.for<[label: string, bytes: readonly number[], text: string]>([
    ["big5", [0xa7, 0x41, 0xa6, 0x6e], "你好"],
    ["euc-jp", [0xc6, 0xfc, 0xcb, 0xdc], "日本"],
    ["euc-kr", [0xc7, 0xd1, 0xb1, 0xb9], "한국"],
    ["shift_jis", [0x93, 0xfa, 0x96, 0x7b], "日本"],
    ["gbk", [0xd6, 0xd0, 0xce, 0xc4], "中文"],
    ["gb18030", [0x94, 0x39, 0xda, 0x33, 0xd6, 0xd0], "💩中"],
    ["iso-2022-jp", [0x1b, 0x24, 0x42, 0x46, 0x7c, 0x4b, 0x5c, 0x1b, 0x28, 0x42, 0x61], "日本a"],
    ["x-user-defined", [0x61, 0x80, 0xff], "a\uf780\uf7ff"],
  ])("decodes %s, in pieces of a byte too", async ([label, bytes, text]) => {
    const decoded = await inGuest(
      ({ name, all }) => {
        const decoder = new TextDecoder(name, { fatal: true });
        let pieces = "";
        for (const byte of all) pieces += decoder.decode(Uint8Array.of(byte), { stream: true });
        return [decoder.decode(Uint8Array.from(all), { stream: true }), pieces + decoder.decode()];
      },
      { name: label, all: bytes },
    );
    expect(decoded).toEqual([text, text]);
  });

  test.for(["", "utf-99", "replacement", "hz-gb-2312", "\u000butf-8", "utf-8\u00a0"])("rejects %j", async (label) => {
    const name = await inGuest((given) => {
      try {
        return new TextDecoder(given).encoding;
      } catch (error) {
        return (error as Error).name;
      }
    }, label);
    expect(name).toBe("RangeError");
  });
});

test("shared memory can be decoded, but not stored in a blob or compressed", async () => {
  const run = async (): Promise<unknown> => {
    const shared = new Uint8Array(new SharedArrayBuffer(2)).fill(97);
    const decoder = new TextDecoderStream();
    const writer = decoder.writable.getWriter();
    void writer.write(shared as never);
    const packer = new CompressionStream("gzip");
    void packer.writable
      .getWriter()
      .write(shared as never)
      .catch(() => {});
    const rejected = await packer.readable
      .getReader()
      .read()
      .catch((error: unknown) => (error as Error).name);
    const { value } = await decoder.readable.getReader().read();
    return [
      value,
      new TextDecoder().decode(shared.buffer as never),
      rejected,
      await new Blob([shared as never]).text(),
    ];
  };
  const { value } = await runGuest(run, { features: ["sharedArrayBuffer"] });
  expect(value).toEqual(["aa", "aa", "TypeError", "97,97"]);
});
