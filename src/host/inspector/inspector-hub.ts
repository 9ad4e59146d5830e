// Connects a DevTools client to the isolates of successive calls. The client sees a single target that is reloaded for each call.
import { firstOwnLine } from "../../bundler/compile/source-map.ts";
import { PRELUDE_SCRIPT_NAME, TOOL_SCRIPT_NAME } from "../../sandbox/protocol/guest-messages.ts";
import type { LogEntry } from "../observability/call-log.ts";
import type { InspectedIsolate, Inspector } from "../workers/process/inspected-isolate.ts";
import { ClientState, type InspectorCommand } from "./client-state.ts";
import { type DevToolsMessage, parseMessage } from "./devtools-message.ts";
import { OpenRequests } from "./open-requests.ts";
import { StepBreakpoints } from "./step-breakpoints.ts";

/** Receives messages for the DevTools client. */
export interface InspectorClient {
  send(text: string): void;
}

/**
 * Interval in ms at which an isolate with unanswered requests is woken. isolated-vm loses the wake-up of a request that arrives just before
 * the isolate starts to wait at a pause, or stops running, and answers it only when the next request arrives: without this, both sides wait
 * forever.
 */
const WAKE_UP_MS = 100;
/** A request without effect. */
const WAKE_UP: InspectorCommand = { method: "Runtime.getIsolateId" };
/** First id of the hub's own requests. Clients count from one. */
const FIRST_HUB_ID = 0x4000_0000;
/** Scripts of the guest platform, which must not be debugged: a pause in them could block the worker process. */
const PLATFORM_SCRIPTS = `^${PRELUDE_SCRIPT_NAME.replaceAll(".", "\\.")}`;
/** The name that isolated-vm gives to a tool's context. */
const TOOL_CONTEXT = "<isolated-vm>";
/** The protocol's code for a server error. */
const SERVER_ERROR = -32_000;
const NO_ISOLATE = { code: SERVER_ERROR, message: "The isolate has ended" };
const NOT_ACCEPTED = { code: SERVER_ERROR, message: "Too many open requests, or one with this id is open" };
const CONSOLE_TYPES = { debug: "debug", info: "log", warn: "warning", error: "error" } as const;

export interface InspectorHubOptions {
  /** Each call waits for a client, and pauses at the first line of the tool. */
  readonly breakAtStart: boolean;
}

export class InspectorHub implements Inspector {
  readonly #options: InspectorHubOptions;
  #client: InspectorClient | undefined;
  #state = new ClientState();
  #isolate: InspectedIsolate | undefined;
  #hasStarted = false;
  /** Whether the client has sent `Runtime.runIfWaitingForDebugger`. */
  #isClientReady = false;
  #sourceMap = "";
  /** Messages of the client for the next isolate. Each is an open request. */
  #queue: string[] = [];
  readonly #open = new OpenRequests();
  readonly #steps = new StepBreakpoints((command) => this.#sendRequest(command));
  /** Whether the hub has continued the tool at a pause that the client does not see. */
  #isContinuing = false;
  #lastHubId = FIRST_HUB_ID;
  #contextId = 1;
  /** Runs while the isolate is paused at a breakpoint. */
  #wakeUps: NodeJS.Timeout | undefined;
  #startBreakpoint: { readonly requestId: number; breakpointId?: string } | undefined;

  constructor(options: InspectorHubOptions) {
    this.#options = options;
  }

  get hasClient(): boolean {
    return this.#client !== undefined;
  }

  /** Sets the source map of the bundle that the next calls run. */
  setSourceMap(sourceMapJson: string): void {
    this.#sourceMap = sourceMapJson;
  }

  /** Sends an entry of the tool's log to the client's console. */
  log({ level, message, data }: LogEntry): void {
    const values = data === undefined ? [message] : [message, JSON.stringify(data)];
    this.#notifyClient("Runtime.consoleAPICalled", {
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

  /** Removes a client and its settings. A tool that is paused at a breakpoint continues. */
  detach(client: InspectorClient): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    this.#queue = [];
    this.#open.clear();
    this.#steps.clear();
    this.#isContinuing = false;
    this.#sendRequest({ method: "Debugger.disable" });
    this.#sendRequest({ method: "Runtime.disable" });
    if (this.#hasStarted) this.#isolate?.setPaused(false);
  }

  /** Processes a message of the client. Text that is not a request is dropped; a request beyond the limits is answered with an error. */
  receive(text: string): void {
    const message = parseMessage(text);
    if (message?.id === undefined || message.id < 0 || message.id >= FIRST_HUB_ID) return;
    if (!this.#open.add(message.id, text.length)) {
      this.#client?.send(JSON.stringify({ id: message.id, error: NOT_ACCEPTED }));
      return;
    }
    if (message.method === "Runtime.runIfWaitingForDebugger") this.#isClientReady = true;
    if (this.#isolate === undefined) {
      this.#queue.push(text);
      return;
    }
    this.#forward(message, text);
    this.#startWhenReady();
  }

  #forward(message: DevToolsMessage, text: string): void {
    this.#state.onRequest(message);
    const { method, params = {} } = message;
    if (method === "Debugger.resume") this.#steps.onResumed();
    if (method === "Debugger.disable") this.#steps.clear();
    if (method === "Debugger.setBlackboxPatterns") this.#sendWith(message, withPlatformScripts(params));
    else if (method === "Runtime.evaluate" && params.contextId === undefined && params.uniqueContextId === undefined) {
      // A request without a context refers to the tool's context.
      this.#sendWith(message, { ...params, contextId: this.#contextId });
    } else if (!this.#steps.prepare(message, () => this.#isolate?.send(text))) this.#isolate?.send(text);
    if (method === "Debugger.enable") this.#hidePlatformScripts();
  }

  #sendWith(message: DevToolsMessage, params: object): void {
    this.#isolate?.send(JSON.stringify({ ...message, params }));
  }

  /** Inspects one of several concurrent calls. Inspection of the next call ends that of the previous one. */
  onOpened(isolate: InspectedIsolate): void {
    const previous = this.#isolate;
    if (previous?.isRunning === true) {
      isolate.go();
      isolate.release();
      return;
    }
    if (previous !== undefined) {
      this.onClosed(previous);
      previous.release();
    }
    this.#startWakeUps();
    this.#steps.clear();
    this.#isContinuing = false;
    this.#isolate = isolate;
    this.#hasStarted = false;
    this.#startBreakpoint = undefined;
    isolate.setPaused(true);
    if (this.#client !== undefined) {
      if (this.#state.commands.length > 0) this.#reload();
      for (const text of this.#queue.splice(0)) {
        const message = parseMessage(text);
        if (message !== undefined) this.#forward(message, text);
      }
    }
    this.#startWhenReady();
  }

  /** Reports a reload to the client, and sends the client's state to the new isolate. */
  #reload(): void {
    this.#notifyClient("Runtime.executionContextsCleared", {});
    for (const { method, params } of this.#state.commands) {
      const isPatterns = method === "Debugger.setBlackboxPatterns";
      this.#sendRequest({ method, params: isPatterns ? withPlatformScripts(params) : params });
      if (method === "Debugger.enable") this.#hidePlatformScripts();
    }
  }

  #hidePlatformScripts(): void {
    const known = this.#state.commands.find(({ method }) => method === "Debugger.setBlackboxPatterns");
    this.#sendRequest({ method: "Debugger.setBlackboxPatterns", params: withPlatformScripts(known?.params) });
  }

  #startWhenReady(): void {
    const { breakAtStart } = this.#options;
    if (this.#isolate === undefined || this.#hasStarted || (breakAtStart && !this.#isClientReady)) return;
    this.#hasStarted = true;
    if (breakAtStart) this.#breakAtStart();
    this.#isolate.setPaused(false);
    this.#isolate.go();
  }

  #breakAtStart(): void {
    const lineNumber = firstOwnLine(this.#sourceMap);
    if (lineNumber === undefined) return;
    const params = { url: TOOL_SCRIPT_NAME, lineNumber, columnNumber: 0 };
    this.#startBreakpoint = { requestId: this.#sendRequest({ method: "Debugger.setBreakpointByUrl", params }) };
  }

  /** Sends a request of the hub, whose response is not passed to the client. */
  #sendRequest({ method, params = {} }: InspectorCommand): number {
    this.#lastHubId = this.#lastHubId >= 0x7fff_fff0 ? FIRST_HUB_ID : this.#lastHubId + 1;
    this.#isolate?.send(JSON.stringify({ id: this.#lastHubId, method, params }));
    return this.#lastHubId;
  }

  onMessage(isolate: InspectedIsolate, text: string): void {
    if (isolate !== this.#isolate) return;
    const message = parseMessage(text);
    if (message === undefined) return;
    if (message.id !== undefined) this.#onResponse(message, text);
    else this.#onNotification(message, text);
  }

  #onResponse(message: DevToolsMessage, text: string): void {
    const { id = 0, result } = message;
    if (id >= FIRST_HUB_ID) {
      const breakpointId = result?.breakpointId;
      if (this.#startBreakpoint?.requestId === id && typeof breakpointId === "string") {
        this.#startBreakpoint.breakpointId = breakpointId;
      }
      this.#steps.onResponse(message);
      return;
    }
    this.#state.onResponse(message);
    if (this.#open.delete(id)) this.#client?.send(text);
  }

  #onNotification(message: DevToolsMessage, text: string): void {
    const { method, params = {} } = message;
    if (method === "Debugger.paused") {
      const shown = this.#steps.onPaused(params);
      if (shown === undefined) {
        this.#isContinuing = true;
        this.#sendRequest({ method: "Debugger.resume" });
        return;
      }
      this.#isolate?.setPaused(true);
      this.#removeStartBreakpoint();
      if (shown !== params) {
        this.#notifyClient(method, shown);
        return;
      }
    } else if (method === "Debugger.resumed") {
      this.#steps.onResumed();
      const isHidden = this.#isContinuing;
      this.#isContinuing = false;
      if (isHidden) return;
      this.#isolate?.setPaused(false);
    } else if (method === "Runtime.executionContextCreated") {
      this.#onContextCreated(params.context);
      return;
    } else if (method === "Debugger.scriptParsed" || method === "Debugger.scriptFailedToParse") {
      // Dynamic code can set its own name and source map URL, and DevTools would request that URL.
      const isTool = params.url === TOOL_SCRIPT_NAME && params.hasSourceURL !== true;
      if (isTool) this.#steps.onToolScript(params.scriptId);
      this.#notifyClient(method, { ...params, sourceMapURL: isTool ? toSourceMapUrl(this.#sourceMap) : "" });
      return;
    }
    this.#client?.send(text);
  }

  /** Reports the tool's context to the client. isolated-vm's own context is hidden. */
  #onContextCreated(context: unknown): void {
    const { id, name } = (context ?? {}) as { readonly id?: unknown; readonly name?: unknown };
    if (typeof id !== "number" || name !== TOOL_CONTEXT) return;
    this.#contextId = id;
    const auxData = { isDefault: true };
    this.#notifyClient("Runtime.executionContextCreated", {
      context: { ...(context as object), name: "tool", auxData },
    });
  }

  #startWakeUps(): void {
    this.#stopWakeUps();
    this.#wakeUps = setInterval(() => {
      if (this.#open.ids.length > 0 || this.#isContinuing) this.#sendRequest(WAKE_UP);
    }, WAKE_UP_MS).unref();
  }

  #stopWakeUps(): void {
    clearInterval(this.#wakeUps);
    this.#wakeUps = undefined;
  }

  #removeStartBreakpoint(): void {
    const breakpointId = this.#startBreakpoint?.breakpointId;
    this.#startBreakpoint = undefined;
    if (breakpointId !== undefined)
      this.#sendRequest({ method: "Debugger.removeBreakpoint", params: { breakpointId } });
  }

  onClosed(isolate: InspectedIsolate): void {
    if (isolate !== this.#isolate) return;
    this.#stopWakeUps();
    this.#isolate = undefined;
    for (const id of this.#open.ids) this.#client?.send(JSON.stringify({ id, error: NO_ISOLATE }));
    this.#open.clear();
  }

  #notifyClient(method: string, params: object): void {
    this.#client?.send(JSON.stringify({ method, params }));
  }
}

function withPlatformScripts(params: DevToolsMessage["params"]): { readonly patterns: readonly unknown[] } {
  const patterns = Array.isArray(params?.patterns) ? params.patterns : [];
  return { ...params, patterns: [...patterns, PLATFORM_SCRIPTS] };
}

/** Returns the source map as a data URL, so that no file has to be served. It includes the sources, and an ignore list of packages. */
function toSourceMapUrl(sourceMapJson: string): string {
  const map = JSON.parse(sourceMapJson) as { readonly sourcesContent?: readonly (string | null)[] };
  const ignoreList = (map.sourcesContent ?? []).flatMap((text, index) => (text === null ? [index] : []));
  const json = JSON.stringify({ ...map, ignoreList });
  return `data:application/json;base64,${Buffer.from(json).toString("base64")}`;
}
