// Tests fetch() in a guest over a stub of the capability: requests, bodies in both directions, abort, rejections, and the end of a call.
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { FetchHost, type FetchMessage, type Route } from "../../support/fetch-host.ts";
import { type Answer, bundleCode, type GuestOutcomeOf, openCode, openGuest, runGuest } from "../../support/guest.ts";

interface Run<Output> extends GuestOutcomeOf<Output> {
  readonly host: FetchHost;
}

async function withHost<Output>(
  route: Route,
  execute: (input: never, ctx: never) => Promise<Output>,
  onMessage: (host: FetchHost) => void = () => {},
): Promise<Run<Output>> {
  const host = new FetchHost(route);
  const answer: Answer = (input) => {
    const answered = host.answer(input);
    onMessage(host);
    return answered;
  };
  const end = await runGuest(execute, { header: { granted: ["fetch"] }, capabilities: { fetch: answer } });
  return { ...end, host } as Run<Output>;
}

const requestOf = (host: FetchHost): FetchMessage => host.messages[0] as FetchMessage;
const DENIAL = { code: "CAPABILITY_DENIED", message: "No rule allows this address" };
const BROKEN = { code: "TOOL_FAILED", message: "The connection was reset" };

describe("a request of fetch()", () => {
  test("sends method, URL, headers and body to the host", async () => {
    const { host, value } = await withHost(
      () => ({
        status: 201,
        statusText: "Made",
        headers: [
          ["X-Mine", "yes"],
          ["set-cookie", "a"],
          ["set-cookie", "b"],
        ],
        body: ["hello ", "world"],
      }),
      async () => {
        const response = await fetch("https://example.com/x?y=1#z", {
          method: "post",
          headers: { "X-Case": "Kept" },
          body: "text",
          redirect: "manual",
        });
        const { status, statusText, ok, type, url, redirected, headers } = response;
        return {
          status,
          statusText,
          ok,
          type,
          url,
          redirected,
          cookies: headers.getSetCookie(),
          text: await response.text(),
        };
      },
    );
    expect(requestOf(host)).toEqual({
      op: "request",
      id: 1,
      method: "POST",
      url: "https://example.com/x?y=1",
      headers: [
        ["X-Case", "Kept"],
        ["Content-Type", "text/plain;charset=UTF-8"],
        ["accept", "*/*"],
        ["accept-language", "*"],
      ],
      body: { base64: Buffer.from("text").toString("base64") },
      redirect: "manual",
    });
    expect(value).toEqual({
      status: 201,
      statusText: "Made",
      ok: true,
      type: "basic",
      url: "https://example.com/x?y=1",
      redirected: false,
      cookies: ["a", "b"],
      text: "hello world",
    });
    expect(host.ops()).toEqual(["request", "read", "read", "read"]);
  });

  test("has an id that starts at 1 in each call", async () => {
    const host = new FetchHost(() => ({ body: ["x"] }));
    await using tool = await openGuest(
      async () =>
        Promise.all([fetch("http://a.test/1"), fetch("http://a.test/2")].map(async (sent) => (await sent).text())),
      { header: { granted: ["fetch"] }, capabilities: { fetch: host.answer } },
    );
    await tool.call();
    await tool.call();
    const ids = host.messages.filter(({ op }) => op === "request").map(({ id }) => id);
    expect(ids).toEqual([1, 2, 1, 2]);
  });

  test("can be made by ctx.fetch, which is the same function", async () => {
    const { value } = await withHost(() => ({ body: ["x"] }), (async (_input: never, ctx: { fetch: typeof fetch }) => [
      ctx.fetch === fetch,
      await (await ctx.fetch("http://a.test/")).text(),
    ]) as never);
    expect(value).toEqual([true, "x"]);
  });

  test("uses the body of a Request", async () => {
    const { host, value } = await withHost(
      async (_message, sent) => ({ body: [await sent()] }),
      async () => {
        const request = new Request("http://a.test/x", { method: "PUT", body: "mine", headers: { a: "b" } });
        const text = await (await fetch(request)).text();
        return [text, request.bodyUsed];
      },
    );
    expect(value).toEqual(["mine", true]);
    expect(requestOf(host).method).toBe("PUT");
  });

  test("has null as body for methods without one, and an empty body if none is given", async () => {
    const { host, value } = await withHost(
      ({ url, method }) => (url?.endsWith("204") ? { status: 204 } : method === "HEAD" ? { body: ["never read"] } : {}),
      async () => {
        const none = await fetch("http://a.test/204");
        const head = await fetch("http://a.test/", { method: "HEAD" });
        const empty = await fetch("http://a.test/");
        return [none.body, head.body, await head.text(), empty.body === null, await empty.text()];
      },
    );
    expect(value).toEqual([null, null, "", false, ""]);
    expect(host.ops()).toEqual(["request", "request", "request"]);
  });

  test("reports the final URL that the host returns", async () => {
    const { value } = await withHost(
      () => ({ url: "http://b.test/there", redirected: true }),
      async () => {
        const { url, redirected } = await fetch("http://a.test/");
        return [url, redirected];
      },
    );
    expect(value).toEqual(["http://b.test/there", true]);
  });

  test("returns immutable response headers", async () => {
    const { value } = await withHost(
      () => ({}),
      async () => {
        const response = await fetch("http://a.test/");
        try {
          response.headers.set("a", "b");
          return "changed";
        } catch (error) {
          return (error as Error).name;
        }
      },
    );
    expect(value).toBe("TypeError");
  });
});

describe("the body of a response", () => {
  test("arrives chunk by chunk, not far ahead of its reader", async () => {
    const hasRead = Promise.withResolvers<void>();
    const { host, value } = await withHost(
      async ({ url = "" }) => {
        if (!url.endsWith("/has-read")) return { body: Array.from({ length: 9 }, () => "x".repeat(30_000)) };
        await hasRead.promise;
        return {};
      },
      async () => {
        const reader = ((await fetch("http://a.test/")).body as ReadableStream<Uint8Array>).getReader();
        const first = await reader.read();
        const second = await reader.read();
        await fetch("http://a.test/has-read");
        // Lets the worker run a task in which it could read on.
        await new Promise((resolve) => setTimeout(resolve, 100));
        return [first.value?.length, second.value?.length];
      },
      ({ messages }) => {
        if (messages.filter(({ op }) => op === "read").length === 5) hasRead.resolve();
      },
    );
    expect(value).toEqual([30_000, 30_000]);
    // Two chunks have been taken, and three more exceed 64 KiB.
    expect(host.ops().filter((op) => op === "read")).toHaveLength(5);
  });

  test("is read to its end without a reader if it is short, so that the host can release it", async () => {
    const { host, value } = await withHost(
      () => ({ body: ["one", "two"] }),
      async () => {
        const response = await fetch("http://a.test/");
        await new Promise((resolve) => setTimeout(resolve, 500));
        return [response.status, response.bodyUsed, await response.text()];
      },
    );
    expect(value).toEqual([200, false, "onetwo"]);
    expect(host.ops()).toEqual(["request", "read", "read", "read"]);
  });

  test("keeps arbitrary bytes", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    const { value } = await withHost(
      () => ({ body: [bytes, bytes] }),
      async () => [...new Uint8Array(await (await fetch("http://a.test/")).arrayBuffer())],
    );
    expect(value).toEqual([...bytes, ...bytes]);
  });

  test("is streamed to both of two clones", async () => {
    const { value } = await withHost(
      () => ({ body: ["one", "two"] }),
      async () => {
        const response = await fetch("http://a.test/");
        const cloned = response.clone();
        return [await response.text(), await cloned.text()];
      },
    );
    expect(value).toEqual(["onetwo", "onetwo"]);
  });

  test("ends when it is cancelled, which notifies the host", async () => {
    const { host, value } = await withHost(
      () => ({ body: ["one"], hangs: true }),
      async () => {
        const response = await fetch("http://a.test/");
        for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
          if (chunk.length > 0) break;
        }
        return response.bodyUsed;
      },
    );
    expect(value).toBe(true);
    expect(host.ops()).toEqual(["request", "read", "read", "cancel"]);
  });

  test("fails with a TypeError that has the host's message as its cause", async () => {
    const { value } = await withHost(
      () => ({ body: ["one"], breaksWith: BROKEN }),
      async () => {
        const response = await fetch("http://a.test/");
        try {
          return await response.text();
        } catch (error) {
          const { name, message, cause } = error as Error;
          return { name, message, cause: (cause as Error).message };
        }
      },
    );
    expect(value).toEqual({ name: "TypeError", message: "terminated", cause: BROKEN.message });
  });

  test("fails with the error of the policy when the host denies it", async () => {
    const { value } = await withHost(
      () => ({ body: ["one"], breaksWith: { code: "QUOTA_EXCEEDED", message: "Too many bytes" } }),
      async () => {
        const reader = ((await fetch("http://a.test/")).body as ReadableStream<Uint8Array>).getReader();
        await reader.read();
        return reader.read().catch((error: Error & { code: string }) => [error.code, error.message]);
      },
    );
    expect(value).toEqual(["QUOTA_EXCEEDED", "Too many bytes"]);
  });
});

describe("the body of a request", () => {
  test("is streamed: each piece of a stream is sent after the host accepted the last one", async () => {
    const { host, value } = await withHost(
      async (_message, sent) => ({ body: [await sent()] }),
      async () => {
        let pulled = 0;
        const body = new ReadableStream({
          pull: (controller) => {
            pulled += 1;
            controller.enqueue(new TextEncoder().encode(`piece ${pulled} `));
            if (pulled === 3) controller.close();
          },
        });
        const response = await fetch("http://a.test/", { method: "POST", body, duplex: "half" });
        return await response.text();
      },
    );
    expect(value).toBe("piece 1 piece 2 piece 3 ");
    expect(requestOf(host).body).toEqual({ stream: true });
    expect(host.ops().filter((op) => op !== "read")).toEqual(["request", "write", "write", "write", "end"]);
  });

  test("is sent in pieces if it is known but long", async () => {
    const { host, value } = await withHost(
      async (_message, sent) => ({ body: [String((await sent()).length)] }),
      async () => (await fetch("http://a.test/", { method: "POST", body: "x".repeat(5_000_000) })).text(),
    );
    expect(value).toBe("5000000");
    expect(requestOf(host).body).toEqual({ stream: true });
    expect(Math.max(...host.messages.map(({ base64 = "" }) => base64.length))).toBeLessThan(128 * 1024);
  });

  test("can be a form with files", async () => {
    const { host, value } = await withHost(
      async (_message, sent) => ({ body: [await sent()] }),
      async () => {
        const form = new FormData();
        form.append("a", "b");
        form.append("f", new Blob(["contents"], { type: "x/y" }), "f.txt");
        return (await fetch("http://a.test/", { method: "POST", body: form })).text();
      },
    );
    const type = requestOf(host).headers?.find(([name]) => name === "Content-Type")?.[1] ?? "";
    const boundary = /^multipart\/form-data; boundary=([\w-]{27,70})$/.exec(type)?.[1];
    expect(value).toBe(
      `--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--${boundary}\r\nContent-Disposition: form-data; name="f"; filename="f.txt"\r\nContent-Type: x/y\r\n\r\ncontents\r\n--${boundary}--\r\n`,
    );
  });

  test.for([
    ["a stream of text", 'new ReadableStream({ start: (c) => { c.enqueue("x"); c.close(); } })'],
    ["a stream that fails", 'new ReadableStream({ start: (c) => c.error(new Error("mine")) })'],
  ])("rejects fetch() and notifies the host if it is %s", async ([, body]) => {
    const host = new FetchHost(() => undefined);
    const { value } = await runGuest(
      `async () => { try { await fetch("http://a.test/", { method: "POST", body: ${body}, duplex: "half" }); } catch (error) { return [error.name, error.message]; } }`,
      { header: { granted: ["fetch"] }, capabilities: { fetch: host.answer } },
    );
    expect(value).toEqual(["TypeError", "fetch failed"]);
    expect(host.ops()).toEqual(["request", "cancel"]);
  });

  test("does not keep the response from completing if the host accepts no more of it", async () => {
    const host = new FetchHost(() => ({ status: 413, body: ["enough"] }));
    const { value } = await runGuest(
      async () => {
        let cancelled = false;
        const body = new ReadableStream({
          pull: (controller) => controller.enqueue(new Uint8Array(10)),
          cancel: () => {
            cancelled = true;
          },
        });
        const response = await fetch("http://a.test/", { method: "POST", body, duplex: "half" });
        return [response.status, await response.text(), cancelled];
      },
      {
        header: { granted: ["fetch"] },
        capabilities: {
          fetch: (input) => {
            const { op } = input as FetchMessage;
            return op === "write" ? { ok: false, code: "TOOL_FAILED", message: "Closed" } : host.answer(input);
          },
        },
      },
    );
    expect(value).toEqual([413, "enough", true]);
  });
});

describe("an abort", () => {
  test("an abort before fetch() starts sends no request to the host", async () => {
    const { host, value } = await withHost(
      () => ({}),
      async () => fetch("http://a.test/", { signal: AbortSignal.abort("why") }).catch((reason: unknown) => reason),
    );
    expect(value).toBe("why");
    expect(host.ops()).toEqual([]);
  });

  test("rejects fetch() while it waits for the response", async () => {
    const { host, value } = await withHost(
      () => undefined,
      async () => {
        const controller = new AbortController();
        setTimeout(() => controller.abort(), 5);
        return fetch("http://a.test/", { signal: controller.signal }).catch((error: Error) => error.name);
      },
    );
    expect(value).toBe("AbortError");
    expect(host.ops()).toEqual(["request", "cancel"]);
  });

  test("rejects reading the body, with a stream of it or without", async () => {
    const { host, value } = await withHost(
      () => ({ body: ["one"], hangs: true }),
      async () => {
        const controller = new AbortController();
        const { signal } = controller;
        const whole = (await fetch("http://a.test/", { signal })).text();
        const reader = ((await fetch("http://a.test/", { signal })).body as ReadableStream).getReader();
        await reader.read();
        const next = reader.read();
        setTimeout(() => controller.abort("why"), 5);
        return Promise.allSettled([whole, next]);
      },
    );
    expect(value).toEqual([
      { status: "rejected", reason: "why" },
      { status: "rejected", reason: "why" },
    ]);
    expect(host.ops().filter((op) => op === "cancel")).toEqual(["cancel", "cancel"]);
  });

  test("an abort between two reads of a stream rejects the next read", async () => {
    const { host, value } = await withHost(
      () => ({ body: ["one"], hangs: true }),
      async () => {
        const controller = new AbortController();
        const response = await fetch("http://a.test/", { signal: controller.signal });
        const reader = (response.body as ReadableStream).getReader();
        await reader.read();
        controller.abort("why");
        return reader.read().catch((reason: unknown) => reason);
      },
    );
    expect(value).toBe("why");
    expect(host.ops()).toEqual(["request", "read", "read", "cancel"]);
  });

  test("an abort by the signal of a Request also ends its body", async () => {
    const { host, value } = await withHost(
      () => undefined,
      async () => {
        const controller = new AbortController();
        let cancelled: unknown;
        const body = new ReadableStream({
          cancel: (reason) => {
            cancelled = reason;
          },
        });
        const request = new Request("http://a.test/", {
          method: "POST",
          body,
          duplex: "half",
          signal: controller.signal,
        });
        const sent = fetch(request).catch((reason: unknown) => reason);
        setTimeout(() => controller.abort("why"), 5);
        return [await sent, cancelled];
      },
    );
    expect(value).toEqual(["why", "why"]);
    expect(host.ops()).toEqual(["request", "cancel"]);
  });

  test("an abort after the end has no effect: the signal keeps no reference", async () => {
    const { host, value } = await withHost(
      () => ({ body: ["one"] }),
      async () => {
        const controller = new AbortController();
        const response = await fetch("http://a.test/", { signal: controller.signal });
        const text = await response.text();
        controller.abort();
        return text;
      },
    );
    expect(value).toBe("one");
    expect(host.ops()).toEqual(["request", "read", "read"]);
  });
});

describe("a denied request", () => {
  test("sets the call's error code if it is not caught", async () => {
    const { outcome, value } = await withHost(
      () => DENIAL,
      async () => {
        await fetch("http://169.254.169.254/");
      },
    );
    expect(outcome).toBe("thrown");
    expect(value).toMatchObject({ ...DENIAL, capabilityCode: "CAPABILITY_DENIED" });
  });

  test("is an error with its code if caught, in contrast to the TypeError of the network", async () => {
    const { value } = await withHost(
      ({ url }) => (url === "http://a.test/" ? DENIAL : BROKEN),
      async () => {
        const rejected = await fetch("http://a.test/").catch((error: Error & { code: string }) => [
          error.code,
          error.message,
        ]);
        const broken = await fetch("http://b.test/").catch((error: Error) => [
          error.name,
          error.message,
          (error.cause as Error).message,
        ]);
        return [rejected, broken];
      },
    );
    expect(value).toEqual([
      [DENIAL.code, DENIAL.message],
      ["TypeError", "fetch failed", BROKEN.message],
    ]);
  });

  test("needs no request to the host if fetch() is not granted", async () => {
    const { outcome, value } = await runGuest(async () => fetch("http://a.test/"));
    expect(outcome).toBe("thrown");
    expect(value).toMatchObject({
      message:
        'fetch is not granted to this tool; request it with capabilities: { fetch: true } and let the host grant it (grant: ["fetch"])',
      capabilityCode: "CAPABILITY_DENIED",
    });
  });

  test.for(["ftp://a.test/", "file:///etc/passwd", "blob:http://a.test/x", "about:blank", "javascript:1"])(
    "a TypeError for the scheme of %s, without a request to the host",
    async (url) => {
      const host = new FetchHost(() => ({}));
      const { value } = await runGuest(
        `() => fetch(${JSON.stringify(url)}).catch((error) => [error.name, error.message, error.cause.message])`,
        {
          header: { granted: ["fetch"] },
          capabilities: { fetch: host.answer },
        },
      );
      expect(value).toEqual(["TypeError", "fetch failed", expect.stringMatching(/^the (scheme|URL) /)]);
      expect(host.ops()).toEqual([]);
    },
  );

  test.for([25, 6_667, 10_080])(
    "a TypeError that names the blocked port %i, without a request to the host",
    async (port) => {
      const host = new FetchHost(() => ({}));
      const url = `http://mail.a.test:${port}/secret`;
      const { outcome, value } = await runGuest(`() => fetch(${JSON.stringify(url)})`, {
        header: { granted: ["fetch"] },
        capabilities: { fetch: host.answer },
      });
      expect(outcome).toBe("thrown");
      expect(value).toMatchObject({
        name: "TypeError",
        message: `fetch failed: port ${port} is blocked by the Fetch standard`,
      });
      expect(host.ops()).toEqual([]);
    },
  );
});

describe("integrity metadata", () => {
  const hash = (algorithm: string, text: string): string =>
    `${algorithm}-${createHash(algorithm).update(text).digest("base64")}`;

  test.for([
    ["the right hash", hash("sha256", "hello"), "hello"],
    ["a wrong hash", hash("sha256", "other"), "TypeError"],
    ["one of several", `${hash("sha384", "other")} ${hash("sha384", "hello")}`, "hello"],
    ["the strongest wrong", `${hash("sha256", "hello")} ${hash("sha512", "other")}`, "TypeError"],
    ["the strongest right", `${hash("sha256", "other")} ${hash("sha512", "hello")}`, "hello"],
    ["base64 for URLs", hash("sha256", "hello").replaceAll("+", "-").replaceAll("/", "_"), "hello"],
    ["with options", `${hash("sha256", "hello")}?ct=x`, "hello"],
    ["no hash at all", "md5-x nonsense", "hello"],
  ] as const)("a response with the integrity metadata %s: %s", async ([, integrity, expected]) => {
    const read = async (url: string, options: RequestInit) =>
      fetch(url, options).then(
        (response) => response.text(),
        (error: Error) => error.name,
      );
    expect(await read("data:,hello", { integrity })).toBe(expected);
    const host = new FetchHost(() => ({ body: ["hel", "lo"] }));
    const { value } = await runGuest(
      `async (integrity) => Promise.all(["data:,hello", "http://a.test/"].map((url) => (${read})(url, { integrity })))`,
      { header: { granted: ["fetch"] }, capabilities: { fetch: host.answer }, input: integrity },
    );
    expect(value).toEqual([expected, expected]);
  });
});

describe("an exchange ends with its call", () => {
  test("no exchange is possible while the tool's top level runs", async () => {
    const source = "fetch('http://a.test/').then(() => 'sent', (error) => error.message)";
    await using tool = await openCode(bundleCode("{ default: () => early }", `const early = ${source};`), {
      header: { granted: ["fetch"] },
    });
    await tool.load();
    expect((await tool.call()).value).toBe("fetch can be used only while its call runs");
    expect(tool.requests).toEqual([]);
  });

  test("a later call cannot read a response of an earlier call", async () => {
    const host = new FetchHost(() => ({ body: ["one", "two"] }));
    const state = "globalThis.kept";
    await using tool = await openGuest<{ readonly first: boolean }, unknown>(
      `async ({ first }) => {
        if (first) { const response = await fetch("http://a.test/"); ${state} = response.body.getReader(); await ${state}.read(); return "kept"; }
        return ${state}.read().catch((error) => [error.code, error.message]);
      }`,
      { header: { granted: ["fetch"] }, capabilities: { fetch: host.answer } },
    );
    expect((await tool.call({ first: true })).value).toBe("kept");
    expect((await tool.call({ first: false })).value).toEqual([
      "CAPABILITY_DENIED",
      "fetch can be used only while its call runs",
    ]);
    expect(host.ops().filter((op) => op === "request")).toHaveLength(1);
  });

  test("requests count as capability calls, their follow-up calls do not if the host excludes them", async () => {
    const host = new FetchHost(() => ({ body: ["a", "b", "c", "d"] }));
    const { value } = await runGuest(
      async () => {
        const text = await (await fetch("http://a.test/")).text();
        const code = await fetch("http://a.test/").catch((error: Error & { code: string }) => error.code);
        return [text, code];
      },
      {
        header: {
          granted: ["fetch"],
          maxCapabilityCalls: 1,
          descriptors: { fetch: { uncounted: ["write", "end", "read", "cancel"] } },
        },
        capabilities: { fetch: host.answer },
      },
    );
    expect(value).toEqual(["abcd", "QUOTA_EXCEEDED"]);
  });
});

describe("fetch() of a data: URL", () => {
  test.for([
    ["data:,a%20b%zz", "text/plain;charset=US-ASCII", "a b%zz"],
    ["data:text/html;charset=x,<p>#hash", "text/html;charset=x", "<p>"],
    ["data:;base64,aGVsbG8", "text/plain;charset=US-ASCII", "hello"],
    ["data:x/y;a=b ; base64,aGVs%0A bG8=", "x/y;a=b", "hello"],
    ["data:nonsense,x", "text/plain;charset=US-ASCII", "x"],
  ] as const)("%s needs no capability", async ([url, type, text]) => {
    const { value } = await runGuest(
      `async () => { const response = await fetch(${JSON.stringify(url)}); return [response.status, response.headers.get("content-type"), await response.text()]; }`,
    );
    expect(value).toEqual([200, type, text]);
  });

  test.for(["data:text/plain", "data:;base64,a", "data:;base64,a=b"])("%s fails", async (url) => {
    const { value } = await runGuest(
      `() => fetch(${JSON.stringify(url)}).catch((error) => [error.name, error.message, error.cause.message])`,
    );
    expect(value).toEqual(["TypeError", "fetch failed", expect.stringMatching(/^expected .* data: URL/)]);
  });
});

test("the console shows the fields of fetch's objects", async () => {
  const { logs } = await runGuest(() => {
    const form = new FormData();
    for (const value of ["1", "2"]) form.append("a", value);
    form.append("b", "3");
    console.log(new Headers({ b: "2", a: "1" }), form);
    console.log(new Response("x", { status: 201 }));
    console.log(new Request("http://a.test/", { method: "POST" }));
    console.log(Headers.prototype);
    return null;
  });
  expect(logs[0]).toBe("info: Headers { a: '1', b: '2' } FormData { a: [ '1', '2' ], b: '3' }");
  expect(logs[1]).toMatch(/^info: Response \{\n {2}status: 201,\n {2}statusText: '',\n {2}headers: Headers \{/);
  expect(logs[2]).toMatch(/^info: Request \{\n {2}method: 'POST',\n {2}url: 'http:\/\/a\.test\/',/);
  expect(logs).toHaveLength(4);
});
