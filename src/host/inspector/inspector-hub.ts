// Between one DevTools client and the isolates of one call after the other: to the client they are one target that is loaded anew.
import { firstOwnLine } from "../../bundler/compile/source-map.ts";
import { PRELUDE_SCRIPT_NAME, TOOL_SCRIPT_NAME } from "../../sandbox/protocol/guest-messages.ts";
import type { LogEntry } from "../observability/call-log.ts";
import type { InspectedIsolate, Inspector } from "../workers/inspected-isolate.ts";
import { ClientState, type InspectorCommand } from "./client-state.ts";
import { type DevToolsMessage, parseMessage } from "./devtools-message.ts";
import { OpenRequests } from "./open-requests.ts";

/** Where what an isolate says goes to. */
export interface InspectorClient {
  send(text: string): void;
}

/** Requests of our own have ids from here on: a client counts from one. */
const FIRST_OWN_ID = 0x4000_0000;
/** The prelude and its chunks are nobody's to step into: a pause there could hold the worker itself. */
const OWN_SCRIPTS = `^${PRELUDE_SCRIPT_NAME.replaceAll(".", "\\.")}`;
/** As isolated-vm names it. */
const TOOL_CONTEXT = "<isolated-vm>";
/** The protocol's code for an error of the server. */
const SERVER_ERROR = -32_000;
const NO_ISOLATE = { code: SERVER_ERROR, message: "The isolate has ended" };
const NOT_ACCEPTED = { code: SERVER_ERROR, message: "Too many open requests, or one with this id is open" };
const CONSOLE_TYPES = { debug: "debug", info: "log", warn: "warning", error: "error" } as const;

export interface InspectorHubOptions {
  /** Each call waits for a client, and stops at the first line of the tool. */
  readonly breakAtStart: boolean;
}

export class InspectorHub implements Inspector {
  readonly #options: InspectorHubOptions;
  #client: InspectorClient | undefined;
  #state = new ClientState();
  #isolate: InspectedIsolate | undefined;
  #hasGone = false;
  /** The client has said that nothing need wait for it any longer. */
  #isClientReady = false;
  #sourceMap = "";
  /** Messages of the client for the next isolate; each is an open request. */
  #waiting: string[] = [];
  readonly #open = new OpenRequests();
  #lastOwnId = FIRST_OWN_ID;
  #contextId = 1;
  #startBreakpoint: { readonly requestId: number; breakpointId?: string } | undefined;

  constructor(options: InspectorHubOptions) {
    this.#options = options;
  }

  get hasClient(): boolean {
    return this.#client !== undefined;
  }

  /** Of the bundle that the next calls run. */
  setSourceMap(sourceMapJson: string): void {
    this.#sourceMap = sourceMapJson;
  }

  /** A line of the tool's log, for the client's console. */
  log({ level, message, data }: LogEntry): void {
    const values = data === undefined ? [message] : [message, JSON.stringify(data)];
    this.#tellClient("Runtime.consoleAPICalled", {
      type: CONSOLE_TYPES[level],
      args: values.map((value) => ({ type: "string", value })),
      executionContextId: this.#contextId,
      timestamp: Date.now(),
    });
  }

  attach(client: InspectorClient): void {
    this.#client = client;
    this.#state = new ClientState();
    this.#isClientReady = false;
  }

  /** What it has set is forgotten, and what stands at a breakpoint of its goes on. */
  detach(client: InspectorClient): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#waiting = [];
    this.#open.clear();
    this.#ask({ method: "Debugger.disable" });
    this.#ask({ method: "Runtime.disable" });
    if (this.#hasGone) this.#isolate?.hold(false);
  }

  /** Takes a message of the client. Text that is no request of the protocol is dropped; a request past the bounds is answered with an error. */
  receive(text: string): void {
    const message = parseMessage(text);
    if (message?.id === undefined || message.id < 0 || message.id >= FIRST_OWN_ID) return;
    if (!this.#open.add(message.id, text.length)) {
      this.#client?.send(JSON.stringify({ id: message.id, error: NOT_ACCEPTED }));
      return;
    }
    if (message.method === "Runtime.runIfWaitingForDebugger") this.#isClientReady = true;
    if (this.#isolate === undefined) {
      this.#waiting.push(text);
      return;
    }
    this.#pass(message, text);
    this.#goWhenReady();
  }

  #pass(message: DevToolsMessage, text: string): void {
    this.#state.sent(message);
    const { method, params = {} } = message;
    if (method === "Debugger.setBlackboxPatterns") this.#sendWith(message, withOwnScripts(params));
    else if (method === "Runtime.evaluate" && params.contextId === undefined && params.uniqueContextId === undefined) {
      // Without a context the one there is, is meant.
      this.#sendWith(message, { ...params, contextId: this.#contextId });
    } else this.#isolate?.send(text);
    if (method === "Debugger.enable") this.#hideOwnScripts();
  }

  #sendWith(message: DevToolsMessage, params: object): void {
    this.#isolate?.send(JSON.stringify({ ...message, params }));
  }

  onOpened(isolate: InspectedIsolate): void {
    this.#isolate = isolate;
    this.#hasGone = false;
    this.#startBreakpoint = undefined;
    isolate.hold(true);
    if (this.#client !== undefined) {
      if (this.#state.commands.length > 0) this.#reload();
      for (const text of this.#waiting.splice(0)) {
        const message = parseMessage(text);
        if (message !== undefined) this.#pass(message, text);
      }
    }
    this.#goWhenReady();
  }

  /** To the client the target was loaded anew; to the new one all is said that the old one was told. */
  #reload(): void {
    this.#tellClient("Runtime.executionContextsCleared", {});
    for (const { method, params } of this.#state.commands) {
      const isPatterns = method === "Debugger.setBlackboxPatterns";
      this.#ask({ method, params: isPatterns ? withOwnScripts(params) : params });
      if (method === "Debugger.enable") this.#hideOwnScripts();
    }
  }

  #hideOwnScripts(): void {
    const known = this.#state.commands.find(({ method }) => method === "Debugger.setBlackboxPatterns");
    this.#ask({ method: "Debugger.setBlackboxPatterns", params: withOwnScripts(known?.params) });
  }

  #goWhenReady(): void {
    const { breakAtStart } = this.#options;
    if (this.#isolate === undefined || this.#hasGone || (breakAtStart && !this.#isClientReady)) return;
    this.#hasGone = true;
    if (breakAtStart) this.#breakAtStart();
    this.#isolate.hold(false);
    this.#isolate.go();
  }

  #breakAtStart(): void {
    const lineNumber = firstOwnLine(this.#sourceMap);
    if (lineNumber === undefined) return;
    const params = { url: TOOL_SCRIPT_NAME, lineNumber, columnNumber: 0 };
    this.#startBreakpoint = { requestId: this.#ask({ method: "Debugger.setBreakpointByUrl", params }) };
  }

  /** A request of our own; its answer is not for the client. */
  #ask({ method, params = {} }: InspectorCommand): number {
    this.#lastOwnId = this.#lastOwnId >= 0x7fff_fff0 ? FIRST_OWN_ID : this.#lastOwnId + 1;
    this.#isolate?.send(JSON.stringify({ id: this.#lastOwnId, method, params }));
    return this.#lastOwnId;
  }

  onMessage(isolate: InspectedIsolate, text: string): void {
    if (isolate !== this.#isolate) return;
    const message = parseMessage(text);
    if (message === undefined) return;
    if (message.id !== undefined) this.#answered(message, text);
    else this.#notified(message, text);
  }

  #answered(message: DevToolsMessage, text: string): void {
    const { id = 0, result } = message;
    if (id >= FIRST_OWN_ID) {
      const breakpointId = result?.breakpointId;
      if (this.#startBreakpoint?.requestId === id && typeof breakpointId === "string") {
        this.#startBreakpoint.breakpointId = breakpointId;
      }
      return;
    }
    this.#state.answered(message);
    if (this.#open.delete(id)) this.#client?.send(text);
  }

  #notified(message: DevToolsMessage, text: string): void {
    const { method, params = {} } = message;
    if (method === "Debugger.paused") {
      this.#isolate?.hold(true);
      this.#removeStartBreakpoint();
    } else if (method === "Debugger.resumed") this.#isolate?.hold(false);
    else if (method === "Runtime.executionContextCreated") {
      this.#contextCreated(params.context);
      return;
    } else if (method === "Debugger.scriptParsed" || method === "Debugger.scriptFailedToParse") {
      // Dynamic code names itself and its map as it likes: DevTools would request whatever address stands there.
      const isTool = params.url === TOOL_SCRIPT_NAME && params.hasSourceURL !== true;
      this.#tellClient(method, { ...params, sourceMapURL: isTool ? toSourceMapUrl(this.#sourceMap) : "" });
      return;
    }
    this.#client?.send(text);
  }

  /** isolated-vm has a context of its own beside the tool's, of which nobody need hear. */
  #contextCreated(context: unknown): void {
    const { id, name } = (context ?? {}) as { readonly id?: unknown; readonly name?: unknown };
    if (typeof id !== "number" || name !== TOOL_CONTEXT) return;
    this.#contextId = id;
    const auxData = { isDefault: true };
    this.#tellClient("Runtime.executionContextCreated", { context: { ...(context as object), name: "tool", auxData } });
  }

  #removeStartBreakpoint(): void {
    const breakpointId = this.#startBreakpoint?.breakpointId;
    this.#startBreakpoint = undefined;
    if (breakpointId !== undefined) this.#ask({ method: "Debugger.removeBreakpoint", params: { breakpointId } });
  }

  onClosed(isolate: InspectedIsolate): void {
    if (isolate !== this.#isolate) return;
    this.#isolate = undefined;
    for (const id of this.#open.ids) this.#client?.send(JSON.stringify({ id, error: NO_ISOLATE }));
    this.#open.clear();
  }

  #tellClient(method: string, params: object): void {
    this.#client?.send(JSON.stringify({ method, params }));
  }
}

function withOwnScripts(params: DevToolsMessage["params"]): { readonly patterns: readonly unknown[] } {
  const patterns = Array.isArray(params?.patterns) ? params.patterns : [];
  return { ...params, patterns: [...patterns, OWN_SCRIPTS] };
}

/** The map itself, so that nothing need be served: with the author's sources in it, and packages marked as not theirs. */
function toSourceMapUrl(sourceMapJson: string): string {
  const map = JSON.parse(sourceMapJson) as { readonly sourcesContent?: readonly (string | null)[] };
  const ignoreList = (map.sourcesContent ?? []).flatMap((text, index) => (text === null ? [index] : []));
  const json = JSON.stringify({ ...map, ignoreList });
  return `data:application/json;base64,${Buffer.from(json).toString("base64")}`;
}
