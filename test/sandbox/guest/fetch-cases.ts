// Cases for fetch's classes. Each runs in a guest and in Node, and must return the same value. A case must not use anything from its scope,
// because its source text is sent to the guest.

interface Given {
  readonly run: (input: never) => unknown;
  /** JSON. */
  readonly input: unknown;
}
export type Case = (() => unknown) | Given;
export type Cases = { readonly [title: string]: Case };

/** Runs one function on many inputs. */
const given = <Input>(what: string, inputs: readonly Input[], run: (input: Input) => unknown): Cases =>
  Object.fromEntries(inputs.map((input) => [`${what} ${JSON.stringify(input)}`, { run, input }]));

export const HEADERS_CASES: Cases = {
  "an empty one": () => [...new Headers()],
  "undefined makes an empty one": () => [...new Headers(undefined)],
  "null is rejected": () => new Headers(null as never),
  "a number is rejected": () => new Headers(1 as never),
  "a string is rejected": () => new Headers("a" as never),
  "a record": () => [...new Headers({ b: "2", A: "1" })],
  "a record of other types": () => [...new Headers({ a: 1, b: null, c: undefined, d: true } as never)],
  "a record with a symbol": () => new Headers({ [Symbol("x")]: "1" } as never),
  "inherited members of a record are ignored": () => [...new Headers(Object.create({ a: "1" }) as never)],
  "a record's keys are read in order": () => {
    const seen: string[] = [];
    const source = { z: "1", a: "2" };
    new Headers(
      new Proxy(source, {
        get: (target, key) => {
          seen.push(`get ${String(key)}`);
          return Reflect.get(target, key) as unknown;
        },
        ownKeys: (target) => {
          seen.push("ownKeys");
          return Reflect.ownKeys(target);
        },
        getOwnPropertyDescriptor: (target, key) => {
          seen.push(`descriptor ${String(key)}`);
          return Reflect.getOwnPropertyDescriptor(target, key);
        },
      }),
    );
    return seen;
  },
  "a sequence": () => [...new Headers([["b", "2"] as [string, string], ["a", "1"], ["b", "3"]])],
  "a sequence of a map": () => [...new Headers(new Map([["a", "1"]]) as never)],
  "a generator": () => [
    ...new Headers(
      (function* () {
        yield ["a", "1"];
      })() as never,
    ),
  ],
  "a pair of three is rejected": () => new Headers([["a", "b", "c"]] as never),
  "a pair of one is rejected": () => new Headers([["a"]] as never),
  "a pair that is a string of two": () => new Headers(["ab"] as never),
  "a sequence of numbers is rejected": () => new Headers([1] as never),
  "another Headers": () => [
    ...new Headers(
      new Headers([
        ["x", "1"],
        ["x", "2"],
        ["set-cookie", "a"],
        ["set-cookie", "b"],
      ]),
    ),
  ],
  "an iterator that is not a function": () => new Headers({ [Symbol.iterator]: 1 } as never),
  "an iterator that is null makes a record": () => [...new Headers({ [Symbol.iterator]: null } as never)],
  "values are trimmed": () => [...new Headers({ a: "  x y\t\r\n ", b: "\t" })],
  "a value with a line break is rejected": () => new Headers({ a: "x\ny" }),
  "a value with a carriage return is rejected": () => new Headers({ a: "x\ry" }),
  "a value with NUL is rejected": () => new Headers({ a: "x\0y" }),
  "a value with other controls is taken": () => new Headers({ a: "x\u0001y\u007f" }).get("a"),
  "a value of Latin-1 is taken": () => new Headers({ a: "caf\u00e9" }).get("a"),
  "a value past Latin-1 is rejected": () => new Headers({ a: "\u0100" }),
  "an empty name is rejected": () => new Headers({ "": "1" }),
  "a name with a space is rejected": () => new Headers({ "a b": "1" }),
  "a name with a colon is rejected": () => new Headers({ "a:": "1" }),
  "a name past ASCII is rejected": () => new Headers({ "\u00e9": "1" }),
  "a name of every token character": () => [...new Headers({ "!#$%&'*+-.^_`|~09azAZ": "1" })],
  "append joins": () => {
    const headers = new Headers({ a: "1" });
    headers.append("A", "2");
    headers.append("a", "");
    return headers.get("a");
  },
  "append without a value": () => (new Headers().append as (name: string) => void)("a"),
  "append gives undefined": () => String(new Headers().append("a", "b")),
  "append of a bad name": () => new Headers().append("a b", "c"),
  "append of a bad value": () => new Headers().append("a", "b\nc"),
  "set replaces": () => {
    const headers = new Headers([
      ["a", "1"],
      ["b", "2"],
      ["a", "3"],
    ]);
    headers.set("A", "4");
    return [...headers];
  },
  "set of a bad value keeps the old one": () => {
    const headers = new Headers({ a: "1" });
    try {
      headers.set("a", "\0");
    } catch {}
    return headers.get("a");
  },
  delete: () => {
    const headers = new Headers({ a: "1", b: "2" });
    headers.delete("A");
    headers.delete("c");
    return [...headers];
  },
  "delete of a bad name": () => new Headers().delete("\n"),
  "get of a missing name": () => new Headers().get("a"),
  "get without a name": () => (new Headers().get as unknown as () => void)(),
  "get of a bad name": () => new Headers().get(""),
  has: () => [new Headers({ a: "" }).has("A"), new Headers().has("a")],
  "has of a bad name": () => new Headers().has("a b"),
  "get of a name that is a number": () => new Headers({ "1": "x" }).get(1 as never),
  "get of a symbol": () => new Headers().get(Symbol("a") as never),
  "cookies are never joined in iteration": () => {
    const headers = new Headers([
      ["set-cookie", "z=1"],
      ["a", "x"],
      ["Set-Cookie", "a=2"],
      ["set-cookie2", "b"],
    ]);
    return [[...headers], headers.get("set-cookie"), headers.getSetCookie()];
  },
  "no cookies": () => new Headers().getSetCookie(),
  "cookies that are empty": () => new Headers([["set-cookie", ""]]).getSetCookie(),
  "cookies are replaced by set": () => {
    const headers = new Headers([
      ["set-cookie", "a"],
      ["set-cookie", "b"],
    ]);
    headers.set("Set-Cookie", "c");
    return headers.getSetCookie();
  },
  "iteration sees headers added meanwhile": () => {
    const headers = new Headers([
      ["fizz", "buzz"],
      ["X-Header", "test"],
    ]);
    const iterator = headers[Symbol.iterator]();
    const seen = [iterator.next().value];
    headers.append("Set-Cookie", "a=b");
    seen.push(iterator.next().value);
    headers.append("Accept", "text/html");
    seen.push(iterator.next().value, iterator.next().value);
    headers.append("set-cookie", "c=d");
    return [seen, iterator.next(), iterator.next()];
  },
  "iteration goes on while names are deleted": () => {
    const headers = new Headers({ a: "1", b: "2", c: "3" });
    const seen: string[] = [];
    for (const [name] of headers) {
      seen.push(name);
      headers.delete(name);
    }
    return seen;
  },
  "keys, values and entries": () => {
    const headers = new Headers({ b: "2", a: "1" });
    return [[...headers.keys()], [...headers.values()], [...headers.entries()]];
  },
  forEach: () => {
    const seen: unknown[] = [];
    const headers = new Headers({ b: "2", a: "1" });
    headers.forEach(function (this: unknown, value, name, owner) {
      seen.push([value, name, owner === headers, this]);
    }, "self" as never);
    return seen;
  },
  "forEach without a function": () => new Headers({ a: "1" }).forEach(undefined as never),
  "forEach of an object": () => new Headers().forEach({} as never),
  "iterators of other objects": () => Headers.prototype.entries.call({} as never),
  "get of another object": () => Headers.prototype.get.call({} as never, "a"),
  "next of another object": () => new Headers().entries().next.call({} as never),
  "the iterator's tag and prototype": () => {
    const iterator = new Headers().entries();
    const prototype = Object.getPrototypeOf(iterator) as object;
    const ArrayIteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())) as object;
    return [
      Object.prototype.toString.call(iterator),
      Object.getPrototypeOf(prototype) === ArrayIteratorPrototype,
      Object.getOwnPropertyDescriptor(prototype, "next")?.enumerable,
      iterator[Symbol.iterator]() === iterator,
    ];
  },
  "the iterator is entries": () => Headers.prototype[Symbol.iterator] === Headers.prototype.entries,
  "members are enumerable": () => Object.keys(Headers.prototype).sort(),
  "the tag": () => Object.prototype.toString.call(new Headers()),
  "without new": () => (Headers as unknown as () => void)(),
};

export const FORM_DATA_CASES: Cases = {
  "append, get and getAll": () => {
    const form = new FormData();
    form.append("a", "1");
    form.append("b", "2");
    form.append("a", "3");
    return [form.get("a"), form.getAll("a"), form.get("x"), form.getAll("x"), form.has("b"), form.has("x")];
  },
  "other values are strings": () => {
    const form = new FormData();
    for (const value of [1, null, undefined, true, {}, [1, 2]]) form.append("a", value as never);
    return form.getAll("a");
  },
  "surrogates are replaced": () => {
    const form = new FormData();
    form.append("\ud800", "\udc00x");
    return [...form];
  },
  "a symbol is rejected": () => new FormData().append("a", Symbol("x") as never),
  "append of one argument": () => (new FormData().append as (name: string) => void)("a"),
  "append gives undefined": () => String(new FormData().append("a", "b")),
  "a form is rejected": () => new (FormData as new (form: unknown) => FormData)({}),
  "null is rejected": () => new (FormData as new (form: unknown) => FormData)(null),
  "undefined is taken": () => [...new (FormData as new (form: unknown) => FormData)(undefined)],
  "set replaces the first and drops the others": () => {
    const form = new FormData();
    for (const [name, value] of [
      ["a", "1"],
      ["b", "2"],
      ["a", "3"],
      ["c", "4"],
    ] as const)
      form.append(name, value);
    form.set("a", "5");
    form.set("d", "6");
    return [...form];
  },
  delete: () => {
    const form = new FormData();
    form.append("a", "1");
    form.append("b", "2");
    form.append("a", "3");
    form.delete("a");
    form.delete("x");
    return [...form];
  },
  "a blob becomes a file": () => {
    const form = new FormData();
    form.append("a", new Blob(["x"], { type: "text/plain" }));
    const file = form.get("a") as File;
    return [file instanceof File, file.name, file.type, file.size];
  },
  "a blob with a name": () => {
    const form = new FormData();
    form.append("a", new Blob(["x"]), "n.txt");
    return (form.get("a") as File).name;
  },
  "a file stays the same": () => {
    const form = new FormData();
    const file = new File(["x"], "a.txt", { lastModified: 5 });
    form.set("a", file);
    return form.get("a") === file;
  },
  "a file with another name": () => {
    const form = new FormData();
    const file = new File(["x"], "a.txt", { lastModified: 5, type: "x/y" });
    form.set("a", file, "b.txt");
    const made = form.get("a") as File;
    return [made === file, made.name, made.lastModified, made.type];
  },
  "a file name with a string": () => new FormData().append("a", "b" as never, "c"),
  iteration: () => {
    const form = new FormData();
    form.append("b", "1");
    form.append("a", "2");
    return [[...form.keys()], [...form.values()], [...form.entries()]];
  },
  "iteration sees added entries": () => {
    const form = new FormData();
    form.append("a", "1");
    const seen: unknown[] = [];
    for (const [name] of form) {
      seen.push(name);
      if (seen.length < 3) form.append(`x${seen.length}`, "y");
    }
    return seen;
  },
  forEach: () => {
    const form = new FormData();
    form.append("a", "1");
    const seen: unknown[] = [];
    form.forEach((value, name, owner) => {
      seen.push([value, name, owner === form]);
    });
    return seen;
  },
  "members are enumerable": () => Object.keys(FormData.prototype).sort(),
  "the tags": () => [
    Object.prototype.toString.call(new FormData()),
    Object.prototype.toString.call(new FormData().entries()),
  ],
  "get of another object": () => FormData.prototype.get.call({} as never, "a"),
  "entries of another object": () => FormData.prototype.entries.call({} as never),
};

export const RESPONSE_CASES: Cases = {
  "the fields of an empty one": () => {
    const { type, url, redirected, status, ok, statusText, body, bodyUsed } = new Response();
    return { type, url, redirected, status, ok, statusText, body, bodyUsed };
  },
  init: () => {
    const { status, ok, statusText, headers } = new Response("x", {
      status: 404,
      statusText: "Not \u00e9",
      headers: { a: "b" },
    });
    return [status, ok, statusText, [...headers]];
  },
  "init that is null": () => new Response("", null as never).status,
  "init that is a number": () => new Response("", 1 as never),
  ...given("status", [199, 600, 0, 1000, 100, 101, 204, 205, 304], (status) => new Response(null, { status }).status),
  ...given("a body with status", [204, 205, 304], (status) => new Response("", { status })),
  "a status that is text": () => new Response(null, { status: "201" as never }).status,
  "a status that is a fraction": () => new Response(null, { status: 201.9 }).status,
  "a status that wraps": () => new Response(null, { status: 65_736 }).status,
  "a statusText with a line break": () => new Response("", { statusText: "a\nb" }),
  "a statusText past Latin-1": () => new Response("", { statusText: "\u0100" }),
  "types of bodies": () =>
    [
      "text",
      new URLSearchParams("a=b"),
      new Blob(["x"], { type: "x/y" }),
      new Blob(["x"]),
      new Uint8Array(1),
      new ArrayBuffer(1),
    ].map((body) => new Response(body).headers.get("content-type")),
  "the type of a form": () =>
    new Response(new FormData()).headers.get("content-type")?.startsWith("multipart/form-data; boundary="),
  "an explicit type is kept": () =>
    new Response("x", { headers: { "Content-Type": "x/y" } }).headers.get("content-type"),
  "other values are text": () => Promise.all([1, true, {}, [1, 2]].map((body) => new Response(body as never).text())),
  "undefined means no body": () => new Response(undefined).body,
  "a symbol is rejected": () => new Response(Symbol("x") as never),
  text: () => new Response("h\u00e9llo \u{1f600}").text(),
  "text without surrogates": () => new Response("\ud800").text(),
  "text drops a byte order mark": async () => (await new Response("\ufeffa\ufeff").text()).length,
  "text of malformed bytes": () => new Response(new Uint8Array([0x61, 0xff, 0xc3])).text(),
  json: () => new Response('{"a":[1,"\u00e9"]}').json(),
  "json with a byte order mark": () => new Response("\ufeff1").json(),
  "json of invalid JSON": () => new Response("{").json(),
  "json of nothing": () => new Response().json(),
  "json of empty text": () => new Response("").json(),
  arrayBuffer: async () => {
    const buffer = await new Response("ab").arrayBuffer();
    return [buffer instanceof ArrayBuffer, [...new Uint8Array(buffer)]];
  },
  "arrayBuffer of a view's part": async () => {
    const { buffer } = new Uint8Array([1, 2, 3, 4]);
    return [...new Uint8Array(await new Response(new Uint8Array(buffer, 1, 2)).arrayBuffer())];
  },
  "arrayBuffer of a DataView": async () =>
    (await new Response(new DataView(new ArrayBuffer(8), 2, 3)).arrayBuffer()).byteLength,
  bytes: async () => {
    const bytes = await new Response("ab").bytes();
    return [bytes instanceof Uint8Array, [...bytes]];
  },
  "bytes are copied when the body is made": async () => {
    const bytes = new Uint8Array([1, 2]);
    const response = new Response(bytes);
    bytes[0] = 9;
    return [...(await response.bytes())];
  },
  blob: async () => {
    const blob = await new Response("ab", { headers: { "content-type": "Text/HTML; Charset=X" } }).blob();
    return [blob.size, blob.type, await blob.text()];
  },
  "blob without a type": async () => (await new Response(new Uint8Array(2)).blob()).type,
  "blob of a type set later": async () => {
    const response = new Response("", { headers: { "content-type": "text/plain" } });
    response.headers.set("content-type", "test/test");
    return (await response.blob()).type;
  },
  "reading nothing": async () => {
    const read = [
      new Response().text(),
      new Response().arrayBuffer(),
      new Response().blob(),
      new Response().bytes(),
    ] as const;
    const [text, buffer, blob, bytes] = await Promise.all(read);
    return [text, buffer.byteLength, blob.size, bytes.length];
  },
  "nothing is never used": async () => {
    const response = new Response();
    await response.text();
    return [response.bodyUsed, await response.text()];
  },
  "a body is used once": async () => {
    const response = new Response("x");
    const before = response.bodyUsed;
    const reading = response.text();
    const during = response.bodyUsed;
    await reading;
    return [before, during, response.bodyUsed, await response.text().catch((error: Error) => error.name)];
  },
  "a used body's stream is locked and at its end": async () => {
    const response = new Response("x");
    await response.text();
    return [response.body?.locked, response.bodyUsed];
  },
  "a locked body": async () => {
    const response = new Response("x");
    response.body?.getReader();
    return [response.bodyUsed, await response.text().catch((error: Error) => error.name)];
  },
  "a cancelled body": async () => {
    const response = new Response("x");
    await response.body?.cancel();
    return [response.bodyUsed, await response.text().catch((error: Error) => error.name)];
  },
  "methods of other objects reject": async () => {
    const names = ["text", "json", "arrayBuffer", "blob", "bytes", "formData"] as const;
    return Promise.all(
      names.map((name) =>
        (Response.prototype[name].call({} as never) as Promise<unknown>).catch((error: Error) => error.name),
      ),
    );
  },
  "status of another object": () => Reflect.get(Response.prototype, "status", {}) as unknown,
  "the stream of text": async () => {
    const chunks: number[][] = [];
    for await (const chunk of new Response("abc").body as unknown as AsyncIterable<Uint8Array>) chunks.push([...chunk]);
    return chunks;
  },
  "the stream of empty text": async () => {
    const reader = (new Response("").body as ReadableStream).getReader();
    return reader.read();
  },
  "a reader that brings its own buffer": async () => {
    const reader = (new Response("abcdef").body as ReadableStream).getReader({ mode: "byob" });
    const first = await reader.read(new Uint8Array(4));
    const second = await reader.read(new Uint8Array(4));
    const third = await reader.read(new Uint8Array(4));
    return [[...(first.value as Uint8Array)], [...(second.value as Uint8Array)], third.done];
  },
  "the same stream each time": () => {
    const response = new Response("x");
    const first = response.body;
    return [response.body === first, first instanceof ReadableStream];
  },
  "a given stream is kept": () => {
    const stream = new ReadableStream();
    return new Response(stream).body === stream;
  },
  "a given stream is read": async () => {
    const stream = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new Uint8Array([104, 105]));
        controller.enqueue(new Uint8Array([33]));
        controller.close();
      },
    });
    return new Response(stream).text();
  },
  "a given stream has no Content-Type": () => new Response(new ReadableStream()).headers.get("content-type"),
  "a stream of text is rejected when it is read": () =>
    new Response(
      new ReadableStream({
        start: (controller) => {
          controller.enqueue("x" as never);
          controller.close();
        },
      }),
    ).text(),
  "a stream that fails": () =>
    new Response(new ReadableStream({ start: (controller) => controller.error(new RangeError("mine")) })).text(),
  "a locked stream is rejected": () => {
    const stream = new ReadableStream();
    stream.getReader();
    return new Response(stream);
  },
  "a disturbed stream is rejected": async () => {
    const stream = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1)) });
    const reader = stream.getReader();
    await reader.read();
    reader.releaseLock();
    return new Response(stream);
  },
  "an async iterable": () =>
    new Response(
      (async function* () {
        yield new Uint8Array([97]);
        yield new Uint8Array([98]);
      })() as never,
    ).text(),
  "a body that is piped is used": async () => {
    const response = new Response("x");
    await response.body?.pipeTo(new WritableStream());
    return [response.bodyUsed, await response.text().catch((error: Error) => error.name)];
  },
  "a body that is teed is used": async () => {
    const response = new Response("x");
    const [one] = response.body?.tee() ?? [];
    return [
      await new Response(one).text(),
      response.bodyUsed,
      await response.text().catch((error: Error) => error.name),
    ];
  },
  "a body is complete after its reader was released unread": async () => {
    const response = new Response("x");
    response.body?.getReader().releaseLock();
    return [response.bodyUsed, await response.text()];
  },
  "a body after its reader was released half read": async () => {
    const response = new Response("x");
    const reader = (response.body as ReadableStream).getReader();
    await reader.read();
    reader.releaseLock();
    return [response.bodyUsed, await response.text().catch((error: Error) => error.name)];
  },
  "another response's body": async () => {
    const first = new Response("x");
    const second = new Response(first.body);
    return [first.bodyUsed, await second.text(), first.bodyUsed];
  },
  "chunks that are not bytes": async () => {
    const chunks = ["x", 1, null, {}, [1], new ArrayBuffer(1)];
    const read = ["text", "json", "arrayBuffer", "blob", "bytes", "formData"] as const;
    const names: string[] = [];
    for (const chunk of chunks) {
      for (const method of read) {
        const stream = new ReadableStream({
          start: (controller) => {
            controller.enqueue(chunk as never);
            controller.close();
          },
        });
        await new Response(stream)[method]().catch((error: Error) => names.push(error.name));
      }
    }
    return names;
  },
  "chunks of a stream are not detached": async () => {
    const chunk = new Uint8Array([1, 2]);
    const stream = new ReadableStream({
      start: (controller) => {
        controller.enqueue(chunk);
        controller.close();
      },
    });
    const bytes = await new Response(stream).bytes();
    bytes[0] = 9;
    return [...chunk];
  },
  "the chunks of a form": async () => {
    const form = new FormData();
    form.append("a", "b");
    form.append("f", new Blob(["contents"]), "f");
    const response = new Response(form);
    const [, boundary = ""] = response.headers.get("content-type")?.split("boundary=") ?? [];
    let text = "";
    for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>)
      text += new TextDecoder().decode(piece);
    return text.replaceAll(boundary, "BOUNDARY");
  },
  textStream: async () => {
    const seen: string[] = [];
    type Texts = { textStream(): ReadableStream<string> };
    const streamOf = (body: ConstructorParameters<typeof Response>[0]) =>
      (new Response(body) as unknown as Texts).textStream();
    const chunks = new ReadableStream({
      start: (controller) => {
        for (const bytes of [[0xef, 0xbb], [0xbf, 0x61, 0xf0, 0x9f], [0x98], [0x80, 0xff], [0xc3]]) {
          controller.enqueue(new Uint8Array(bytes));
        }
        controller.close();
      },
    });
    for (const body of [null, "", "h\u00e9llo", chunks]) {
      let text = "";
      for await (const piece of streamOf(body)) text += piece;
      seen.push(text);
    }
    return seen;
  },
  "textStream uses the body": async () => {
    const response = new Response("x") as Response & { textStream(): ReadableStream<string> };
    await response.textStream().cancel();
    return [response.bodyUsed, await response.text().catch((error: Error) => error.name)];
  },
  "textStream of a used body": async () => {
    const response = new Response("x") as Response & { textStream(): ReadableStream<string> };
    await response.text();
    return response.textStream();
  },
  clone: async () => {
    const response = new Response("x", { status: 201, statusText: "y", headers: { a: "b" } });
    const cloned = response.clone();
    cloned.headers.set("a", "c");
    return [cloned.status, cloned.statusText, response.headers.get("a"), await response.text(), await cloned.text()];
  },
  "clone of a stream": async () => {
    const stream = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new Uint8Array([104, 105]));
        controller.close();
      },
    });
    const response = new Response(stream);
    const cloned = response.clone();
    return [await response.text(), await cloned.text()];
  },
  "a clone's chunks share no memory": async () => {
    const chunks = [
      new Uint8Array([1, 2]),
      new Float64Array([3]),
      new DataView(new ArrayBuffer(4)),
      new ArrayBuffer(2),
    ];
    const stream = new ReadableStream({
      start(controller) {
        for (const chunk of chunks) controller.enqueue(chunk);
        controller.close();
      },
    });
    const response = new Response(stream);
    const cloned = response.clone();
    const seen: unknown[] = [];
    const [mine, theirs] = [response.body?.getReader(), cloned.body?.getReader()];
    for (const chunk of chunks) {
      const [own, copy] = [(await mine?.read())?.value as unknown, (await theirs?.read())?.value as unknown];
      const buffer = (value: unknown) => (ArrayBuffer.isView(value) ? value.buffer : value);
      seen.push(own === chunk, Object.prototype.toString.call(copy), buffer(copy) === buffer(own));
    }
    return [...seen, (await mine?.read())?.done, (await theirs?.read())?.done];
  },
  "a clone of a failing stream fails": async () => {
    const stream = new ReadableStream({
      pull(controller) {
        controller.error(new RangeError("the source"));
      },
    });
    const response = new Response(stream);
    const cloned = response.clone();
    const failed = (made: Response) => made.text().then(String, (error: Error) => error.name);
    return [await failed(cloned), await failed(response)];
  },
  "a clone that is cancelled leaves the other": async () => {
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("left"));
        controller.close();
      },
    });
    const response = new Response(stream);
    void response.clone().body?.cancel();
    return await response.text();
  },
  "a body's stream does not read Object.prototype.then": async () => {
    const prototype = Object.prototype as { then?: unknown };
    const { body } = new Response("real");
    const written: number[] = [];
    const sink = new WritableStream({ write: (chunk: Uint8Array) => void written.push(...chunk) });
    // biome-ignore lint/suspicious/noThenProperty: a guest may do this
    prototype.then = (resolve: (value: unknown) => void) => {
      delete prototype.then;
      resolve({ done: false, value: new Uint8Array([1]) });
    };
    try {
      await body?.pipeTo(sink);
    } finally {
      delete prototype.then;
    }
    return written;
  },
  ...given("fetch() of a blocked port", [1, 25, 6000, 10_080], async (port: number) => {
    // The guest's message says more: which port is blocked.
    const rejection = (error: Error) => [error.name, error.message.startsWith("fetch failed")];
    return [
      await fetch(`http://127.0.0.1:${port}/`).then(String, rejection),
      await fetch(`https://[::1]:${port}?x`).then(String, rejection),
    ];
  }),
  "structuredClone rejects fetch's objects": () => {
    const made = [new Response("x"), new Headers({ a: "b" }), new FormData(), new Request("http://a.test/")];
    return made.map((value): unknown => {
      try {
        return [structuredClone(value), structuredClone({ in: [value] })];
      } catch (error) {
        return (error as Error).name;
      }
    });
  },
  "clone of a used body": async () => {
    const response = new Response("x");
    await response.text();
    return response.clone();
  },
  "clone of a locked body": () => {
    const response = new Response("x");
    response.body?.getReader();
    return response.clone();
  },
  "a clone's cancel leaves the other": async () => {
    const response = new Response("x");
    const cloned = response.clone();
    void cloned.body?.cancel();
    return response.text();
  },
  error: () => {
    const { type, status, statusText, ok, body, headers } = Response.error();
    return { type, status, statusText, ok, body, headers: [...headers] };
  },
  "headers of Response.error are immutable": () => Response.error().headers.append("a", "b"),
  redirect: () => {
    const response = Response.redirect("https://example.com/\u00e9", 301);
    return [response.status, response.headers.get("location"), response.type, response.redirected, response.ok];
  },
  "the default status of redirect": () => Response.redirect("https://example.com").status,
  "redirect to an invalid URL": () => Response.redirect("http://:-1"),
  ...given(
    "redirect with",
    [200, 301, 302, 303, 304, 307, 308, 400],
    (status) => Response.redirect("https://example.com", status as 301).status,
  ),
  "headers of Response.redirect are immutable": () => Response.redirect("https://example.com").headers.set("a", "b"),
  "json static": async () => {
    const response = Response.json({ a: [1] }, { status: 201, headers: { b: "c" } });
    return [response.status, [...response.headers], await response.text(), response.type];
  },
  "json static with a type": () => Response.json(1, { headers: { "content-type": "x/y" } }).headers.get("content-type"),
  "json static of undefined": () => Response.json(undefined),
  "json static of a function": () => Response.json(() => {}),
  "json static of a cycle": () => {
    const value: { self?: unknown } = {};
    value.self = value;
    return Response.json(value);
  },
  "json static of a value that throws": () =>
    Response.json({
      get a(): never {
        throw new RangeError("mine");
      },
    }),
  "json static with a null body status": () => Response.json(1, { status: 204 }),
  "json static without data": () => (Response.json as () => Response)(),
  "json static of a lone surrogate": async () => [...(await Response.json("\udead").bytes())],
  "members are enumerable": () => [Object.keys(Response.prototype).sort(), Object.keys(Response).sort()],
  "the tag": () => Object.prototype.toString.call(new Response()),
};

export const REQUEST_CASES: Cases = {
  "the fields of a plain one": () => {
    const request = new Request("http://example.com/a?b#c");
    const { method, url, destination, referrer, referrerPolicy, mode, credentials, cache, redirect, integrity } =
      request;
    const { keepalive, isReloadNavigation, isHistoryNavigation, duplex, body, bodyUsed } = request as Request & {
      isReloadNavigation: boolean;
      isHistoryNavigation: boolean;
    };
    const first = { method, url, destination, referrer, referrerPolicy, mode, credentials, cache, redirect, integrity };
    return {
      ...first,
      keepalive,
      isReloadNavigation,
      isHistoryNavigation,
      duplex,
      body,
      bodyUsed,
      headers: [...request.headers],
    };
  },
  "without arguments": () => new (Request as unknown as new () => Request)(),
  "a URL object": () => new Request(new URL("http://example.com/\u00e9")).url,
  "an object that converts to a URL": () => new Request({ toString: () => "http://example.com/x" } as never).url,
  "a relative URL": () => new Request("/x"),
  "an empty URL": () => new Request(""),
  "a URL with a password": () => new Request("http://a:b@example.com"),
  "a URL with a name": () => new Request("http://a@example.com"),
  ...given(
    "the URL",
    [
      "http://example.com",
      "http://example.com/",
      "https://a.b-c.example/x/y.z?q=1&r=%20",
      "https://example.com:443/x",
      "http://example.com:80/",
      "http://example.com:8080/x",
      "http://example.com:99999/x",
      "http://example.com:09/x",
      "HTTP://EXAMPLE.com/x",
      "https://example.com/a/../b",
      "https://example.com/a/./b",
      "https://example.com/a/%2e%2E/b",
      "https://example.com/a..b/c",
      "https://example.com/.hidden",
      "https://example.com/?a='b'",
      "https://example.com/'b'",
      "https://example.com/a b",
      "https://example.com/a|b?c|d",
      "https://example.com/[x]?[y]",
      "https://example.com/x?",
      "https://example.com/x#",
      "https://example.com/\\x",
      "https://1.2.3/x",
      "https://0x7f.1/x",
      "https://a.1/x",
      "https://a.1e/x",
      "https://a.0x/x",
      "https://xn--a/x",
      "https://a_b/x",
      "https://-a-/x",
      "https://a..b/x",
      "https://.a/x",
      "https://a./x",
      "https://[::1]/x",
      "https://ex%41mple.com/x",
      "https:example.com/x",
      " https://example.com/x ",
      "https://example.com/%zz",
      "https://example.com//x//",
      "https://example.com/x;y=1,2@3:4~!$&()*+",
      "ftp://example.com/x",
      "about:blank",
      "data:text/plain,x",
    ],
    (url) => new Request(url).url,
  ),
  ...given(
    "the method",
    [
      "get",
      "Post",
      "pUT",
      "delete",
      "HEAD",
      "options",
      "patch",
      "x-mine",
      "CONNECT",
      "trace",
      "TRACK",
      "",
      "a b",
      "\u00e9",
    ],
    (method) => new Request("http://a.b", { method }).method,
  ),
  ...given(
    "the member",
    [
      ["mode", "navigate"],
      ["mode", "no-cors"],
      ["mode", "same-origin"],
      ["mode", "x"],
      ["credentials", "omit"],
      ["credentials", "include"],
      ["credentials", "x"],
      ["cache", "no-store"],
      ["cache", "only-if-cached"],
      ["cache", "x"],
      ["redirect", "manual"],
      ["redirect", "error"],
      ["redirect", "x"],
      ["referrerPolicy", "origin"],
      ["referrerPolicy", "x"],
      ["referrer", ""],
      ["referrer", "about:client"],
      ["referrer", "http://["],
      ["integrity", "sha256-x"],
      ["keepalive", true],
      ["keepalive", ""],
      ["duplex", "half"],
      ["duplex", "full"],
      ["priority", "high"],
      ["priority", "x"],
      ["window", null],
      ["window", {}],
      ["signal", null],
      ["signal", {}],
      ["headers", { "X-A": "b" }],
      ["headers", null],
    ] as const,
    ([member, value]) => {
      const made: unknown = Reflect.get(new Request("http://a.b", { [member]: value }), member);
      return made instanceof Headers ? [...made] : made;
    },
  ),
  "no-cors with PUT": () => new Request("http://a.b", { mode: "no-cors", method: "PUT" }),
  "only-if-cached with same-origin": () =>
    new Request("http://a.b", { cache: "only-if-cached", mode: "same-origin" }).cache,
  "a body with GET": () => new Request("http://a.b", { body: "x" }),
  "a body with HEAD": () => new Request("http://a.b", { body: "x", method: "HEAD" }),
  "an empty body with GET": () => new Request("http://a.b", { body: "" }),
  "a null body with GET": () => new Request("http://a.b", { body: null }).body,
  "a body's type": () => new Request("http://a.b", { method: "POST", body: "x" }).headers.get("content-type"),
  "a body's explicit type": () =>
    new Request("http://a.b", { method: "POST", body: "x", headers: { "Content-Type": "x/y" } }).headers.get(
      "content-type",
    ),
  "a body is read": () => new Request("http://a.b", { method: "POST", body: new URLSearchParams({ a: "b c" }) }).text(),
  "a stream needs duplex": () => new Request("http://a.b", { method: "POST", body: new ReadableStream() }),
  "a stream with duplex": () => {
    const body = new ReadableStream();
    return new Request("http://a.b", { method: "POST", body, duplex: "half" }).body === body;
  },
  "a stream kept alive": () =>
    new Request("http://a.b", { method: "POST", body: new ReadableStream(), duplex: "half", keepalive: true }),
  "a locked stream": () => {
    const body = new ReadableStream();
    body.getReader();
    return new Request("http://a.b", { method: "POST", body, duplex: "half" });
  },
  "of a request": async () => {
    const first = new Request("http://a.b/x", {
      method: "POST",
      body: "x",
      headers: { "X-A": "1" },
      redirect: "manual",
    });
    const second = new Request(first);
    return [
      second.url,
      second.method,
      [...second.headers],
      second.redirect,
      first.bodyUsed,
      second.bodyUsed,
      await second.text(),
    ];
  },
  "of a request with init": async () => {
    const first = new Request("http://a.b/x", { method: "POST", body: "x", headers: { "X-A": "1" } });
    const second = new Request(first, { headers: { "X-B": "2" }, body: "y" });
    return [[...second.headers], first.bodyUsed, await first.text(), await second.text()];
  },
  "of a request to GET": () =>
    new Request(new Request("http://a.b/x", { method: "POST", body: "x" }), { method: "GET" }),
  "of a used request": async () => {
    const first = new Request("http://a.b/x", { method: "POST", body: "x" });
    await first.text();
    return new Request(first);
  },
  "of a used request with a body": async () => {
    const first = new Request("http://a.b/x", { method: "POST", body: "x" });
    await first.text();
    return new Request(first, { body: "y" }).text();
  },
  "of a request whose body is locked": () => {
    const first = new Request("http://a.b/x", { method: "POST", body: "x" });
    first.body?.getReader();
    return new Request(first);
  },
  "of a request with a stream": async () => {
    const body = new ReadableStream({
      start: (controller) => {
        controller.enqueue(new Uint8Array([120]));
        controller.close();
      },
    });
    const first = new Request("http://a.b/x", { method: "POST", body, duplex: "half" });
    const second = new Request(first);
    return [first.bodyUsed, await second.text()];
  },
  "headers of both are independent": () => {
    const first = new Request("http://a.b/x", { headers: { a: "1" } });
    const second = new Request(first);
    second.headers.set("a", "2");
    return first.headers.get("a");
  },
  clone: async () => {
    const request = new Request("http://a.b/x", { method: "POST", body: "x", headers: { a: "1" } });
    const cloned = request.clone();
    return [cloned.url, cloned.method, [...cloned.headers], await request.text(), await cloned.text()];
  },
  "clone of a used body": async () => {
    const request = new Request("http://a.b/x", { method: "POST", body: "x" });
    await request.text();
    return request.clone();
  },
  "a default signal": () => {
    const request = new Request("http://a.b");
    const { signal } = request;
    return [signal instanceof AbortSignal, signal.aborted, request.signal === signal];
  },
  "a given signal": () => {
    const controller = new AbortController();
    const request = new Request("http://a.b", { signal: controller.signal });
    const seen: unknown[] = [request.signal === controller.signal];
    request.signal.addEventListener("abort", () => seen.push("heard"));
    controller.abort("why");
    return [...seen, request.signal.aborted, request.signal.reason];
  },
  "a signal that has aborted": () => {
    const { signal } = new Request("http://a.b", { signal: AbortSignal.abort("why") });
    return [signal.aborted, signal.reason];
  },
  "a clone follows the signal": () => {
    const controller = new AbortController();
    const cloned = new Request("http://a.b", { signal: controller.signal }).clone();
    controller.abort("why");
    return cloned.signal.reason;
  },
  "a request of a request follows the signal unless overridden": () => {
    const controller = new AbortController();
    const first = new Request("http://a.b", { signal: controller.signal });
    const second = new Request(first);
    const third = new Request(first, { signal: null });
    controller.abort("why");
    return [second.signal.aborted, third.signal.aborted];
  },
  "formData of a form": async () => {
    const form = new FormData();
    form.append("a", "b\nc");
    form.append("f", new File(["x"], "n.txt", { type: "x/y" }));
    const read = await new Request("http://a.b", { method: "POST", body: form }).formData();
    const file = read.get("f") as File;
    return [read.get("a"), file.name, file.type, await file.text()];
  },
  "members are enumerable": () =>
    Object.keys(Request.prototype)
      .filter((key) => key !== "attribute")
      .sort(),
  "the tag": () => Object.prototype.toString.call(new Request("http://a.b")),
};

const form = (type: string, body: string): Case => ({
  input: [type, body],
  run: async ([contentType, text]: readonly [string, string]) => {
    const read = await new Response(text, { headers: { "content-type": contentType } }).formData();
    const shown = [...read].map(async ([name, value]) =>
      typeof value === "string" ? [name, value] : [name, value.name, value.type, await value.text()],
    );
    return Promise.all(shown);
  },
});
const BOUNDARY = "-----------------------------0123456789";
const multipart = (...lines: readonly string[]): Case =>
  form(`multipart/form-data; boundary=${BOUNDARY}`, lines.join("\r\n").replaceAll("%%", `--${BOUNDARY}`));
const NAMED = 'Content-Disposition: form-data; name="a"';

export const FORM_BODY_CASES: Cases = {
  urlencoded: form("application/x-www-form-urlencoded", "a=1&b=%20+c&a=\u00e9&=x&d"),
  "urlencoded with a charset": form("application/x-www-form-urlencoded;charset=UTF-8", "a=1"),
  "urlencoded, empty": form("application/x-www-form-urlencoded", ""),
  "another type": form("text/plain", "a=1"),
  "no boundary": form("multipart/form-data", "--x--"),
  fields: multipart("%%", NAMED, "", "1", "%%", 'Content-Disposition: form-data; name="b"', "", "2\r\n3", "%%--", ""),
  "no field": multipart("%%--", ""),
  "an empty value": multipart("%%", NAMED, "", "", "%%--", ""),
  "a file": multipart("%%", `${NAMED}; filename="f.txt"`, "Content-Type: text/html", "", "<p>", "%%--", ""),
  "a file without a type": multipart("%%", `${NAMED}; filename="f.txt"`, "", "x", "%%--", ""),
  "a file without a name": multipart("%%", `${NAMED}; filename=""`, "", "x", "%%--", ""),
  "headers in another case": multipart(
    "%%",
    'CONTENT-DISPOSITION: form-data; name="a"; filename="f"',
    "content-type: x/y",
    "",
    "x",
    "%%--",
    "",
  ),
  "unknown headers": multipart("%%", NAMED, "X-Mine: yes", "", "x", "%%--", ""),
  "the end without a line break": multipart("%%", NAMED, "", "1", "%%--"),
  "a name past ASCII": multipart("%%", 'Content-Disposition: form-data; name="\u00e9"', "", "\u{1f600}", "%%--", ""),
  "an extended file name": multipart("%%", `${NAMED}; filename*=utf-8''%e2%82%ac.txt`, "", "x", "%%--", ""),
  "no name": multipart("%%", "Content-Type: x/y", "", "1", "%%--", ""),
  "no head": multipart("%%", "", "1", "%%--", ""),
  "no end": multipart("%%", NAMED, "", "1"),
  "a header without a colon": multipart("%%", "Content-Disposition form-data", "", "1", "%%--", ""),
  "a header that does not end": multipart("%%", NAMED),
};
