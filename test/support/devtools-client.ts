// A debugger like the DevTools: speaks their protocol over a WebSocket, and maps locations by the source maps that it receives.
import { generatedPositionFor, LEAST_UPPER_BOUND, originalPositionFor, TraceMap } from "@jridgewell/trace-mapping";
import { WebSocket } from "ws";

const TIMEOUT_MS = 200_000;

type Json = { readonly [key: string]: unknown };
export interface Paused {
  readonly callFrames: readonly {
    readonly callFrameId: string;
    readonly functionName: string;
    readonly location: { readonly scriptId: string; readonly lineNumber: number; readonly columnNumber: number };
    readonly scopeChain: readonly { readonly type: string; readonly object: { readonly objectId: string } }[];
  }[];
  readonly hitBreakpoints?: readonly string[];
}

interface Script {
  readonly scriptId: string;
  readonly url: string;
  readonly map: TraceMap;
}

export class DevToolsClient implements AsyncDisposable {
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, { resolve(result: Json): void; reject(message: string): void }>();
  readonly #events: { readonly method: string; readonly params: Json }[] = [];
  #onEvent: (() => void)[] = [];
  #lastId = 0;
  /** The tool's latest. */
  script: Script | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data) => this.#receive(JSON.parse(data.toString())));
  }

  static async connect(url: string, headers: { readonly [name: string]: string } = {}): Promise<DevToolsClient> {
    const socket = new WebSocket(url, { headers });
    await new Promise<void>((resolve, reject) => socket.once("open", resolve).once("error", reject));
    return new DevToolsClient(socket);
  }

  #receive(message: Json): void {
    const { id, method, params, result, error } = message as { [key: string]: Json } & { id?: number; method?: string };
    if (id !== undefined) {
      const answer = this.#answers.get(id);
      this.#answers.delete(id);
      if (error !== undefined) answer?.reject(String(error.message));
      else answer?.resolve(result ?? {});
      return;
    }
    if (method === undefined) return;
    if (method === "Debugger.scriptParsed" && String(params?.sourceMapURL).startsWith("data:")) {
      const text = Buffer.from(String(params?.sourceMapURL).split(",")[1] ?? "", "base64").toString();
      this.script = { scriptId: String(params?.scriptId), url: String(params?.url), map: new TraceMap(text) };
    }
    this.#events.push({ method, params: params ?? {} });
    for (const look of this.#onEvent.splice(0)) look();
  }

  send(method: string, params: Json = {}): Promise<Json> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = Promise.withResolvers<Json>();
    const late = new Error(`${method} has no answer after ${TIMEOUT_MS} ms`);
    // Does not keep the process alive: a request may stay unanswered on purpose.
    const timer = setTimeout(() => answer.reject(late), TIMEOUT_MS).unref();
    // The error has the stack of the request.
    const failed = new Error();
    this.#answers.set(id, {
      resolve: answer.resolve,
      reject: (message) => answer.reject(Object.assign(failed, { message: `${method}: ${message}` })),
    });
    this.#socket.send(JSON.stringify({ id, method, params }));
    return answer.promise.finally(() => clearTimeout(timer));
  }

  sendText(text: string): void {
    this.#socket.send(text);
  }

  /** The next event of this name that has not been looked at. */
  async event(method: string): Promise<Json> {
    const { promise: late, reject } = Promise.withResolvers<never>();
    const received = (): string => this.#events.map((event) => event.method).join(", ");
    const timer = setTimeout(() => reject(new Error(`Expected ${method}, got ${received()}`)), TIMEOUT_MS);
    try {
      for (;;) {
        const index = this.#events.findIndex((event) => event.method === method);
        if (index >= 0) return this.#events.splice(index, 1)[0]?.params ?? {};
        await Promise.race([new Promise<void>((resolve) => this.#onEvent.push(resolve)), late]);
      }
    } finally {
      clearTimeout(timer);
    }
  }

  async paused(): Promise<Paused> {
    return (await this.event("Debugger.paused")) as unknown as Paused;
  }

  /** Returns the source location of the innermost frame. */
  placeOf({ callFrames }: Paused): string {
    const location = callFrames[0]?.location;
    if (this.script === undefined || location === undefined) return "nowhere";
    const { source, line } = originalPositionFor(this.script.map, {
      line: location.lineNumber + 1,
      column: location.columnNumber,
    });
    return `${source}:${line}`;
  }

  /** Sets a breakpoint on a line of a source file, by the map. */
  async breakAt(source: string, line: number): Promise<string> {
    if (this.script === undefined) throw new Error("Expected a script with a source map");
    const at = generatedPositionFor(this.script.map, { source, line, column: 0, bias: LEAST_UPPER_BOUND });
    const place = { url: this.script.url, lineNumber: (at.line ?? 0) - 1, columnNumber: at.column ?? 0 };
    const { breakpointId } = await this.send("Debugger.setBreakpointByUrl", place);
    return String(breakpointId);
  }

  /** Local variables of the innermost frame, those of its blocks included. */
  async locals({ callFrames }: Paused): Promise<Json> {
    const scopes = callFrames[0]?.scopeChain.filter(({ type }) => type === "local" || type === "block") ?? [];
    const found = await Promise.all(
      scopes.map(async ({ object: { objectId } }) => {
        const { result } = await this.send("Runtime.getProperties", { objectId, ownProperties: true });
        return result as readonly { readonly name: string; readonly value?: { readonly value?: unknown } }[];
      }),
    );
    return Object.fromEntries(found.flat().map(({ name, value }) => [name, value?.value]));
  }

  get isOpen(): boolean {
    return this.#socket.readyState === this.#socket.OPEN;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#socket.readyState === this.#socket.CLOSED) return;
    const closed = new Promise<void>((resolve) => this.#socket.once("close", () => resolve()));
    this.#socket.close();
    await closed;
  }
}
