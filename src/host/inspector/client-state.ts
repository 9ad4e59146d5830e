// What a client has asked for that outlives one isolate: domains switched on, breakpoints, settings. Each call has an isolate of its own,
// and the next one is told what the last one was.
import type { DevToolsMessage } from "./devtools-message.ts";

/** More than a person sets. */
const MAX_ENTRIES = 1_000;
/** Of one request's parameters as JSON. A larger one is passed on, but the next isolate is not told of it. */
const MAX_PARAMS_LENGTH = 64 * 1024;
/** Of those the last one counts. */
const SETTINGS: ReadonlySet<string> = new Set([
  "Debugger.setAsyncCallStackDepth",
  "Debugger.setBlackboxPatterns",
  "Debugger.setBreakpointsActive",
  "Debugger.setPauseOnExceptions",
  "Debugger.setSkipAllPauses",
  "Runtime.setAsyncCallStackDepth",
  "Runtime.setCustomObjectFormatterEnabled",
  "Runtime.setMaxCallStackSizeToCapture",
]);
const BREAKPOINTS: ReadonlySet<string> = new Set([
  "Debugger.setBreakpointByUrl",
  "Debugger.setInstrumentationBreakpoint",
]);

export interface InspectorCommand {
  readonly method: string;
  readonly params?: DevToolsMessage["params"];
}

export class ClientState {
  /** In the order in which they came: a domain is switched on before its breakpoints are set. */
  readonly #commands = new Map<string, InspectorCommand>();
  /** Of a request that sets a breakpoint, by the request's id: the breakpoint's own is in the answer. */
  readonly #setting = new Map<number, string>();
  readonly #breakpoints = new Map<string, string>();

  /** All that a new isolate is to be told. */
  get commands(): readonly InspectorCommand[] {
    return [...this.#commands.values()];
  }

  sent({ id, method, params }: DevToolsMessage): void {
    if (method === undefined) return;
    const paramsJson = JSON.stringify(params) ?? "";
    if (paramsJson.length > MAX_PARAMS_LENGTH) return;
    const [domain = "", action = ""] = method.split(".");
    if (action === "disable") this.#forgetDomain(domain);
    else if (method === "Debugger.removeBreakpoint") this.#removeBreakpoint(String(params?.breakpointId));
    else if (action === "enable" || SETTINGS.has(method)) this.#keep(method, { method, params });
    else if (BREAKPOINTS.has(method)) {
      const key = `${method} ${paramsJson}`;
      this.#keep(key, { method, params });
      if (id !== undefined && this.#setting.size < MAX_ENTRIES) this.#setting.set(id, key);
    }
  }

  answered({ id, result }: DevToolsMessage): void {
    const key = id === undefined ? undefined : this.#setting.get(id);
    if (id === undefined || key === undefined) return;
    this.#setting.delete(id);
    const breakpointId = result?.breakpointId;
    if (typeof breakpointId === "string") this.#breakpoints.set(breakpointId, key);
    // It was refused, and would be again.
    else this.#commands.delete(key);
  }

  #keep(key: string, command: InspectorCommand): void {
    if (this.#commands.size < MAX_ENTRIES || this.#commands.has(key)) this.#commands.set(key, command);
  }

  #removeBreakpoint(breakpointId: string): void {
    const key = this.#breakpoints.get(breakpointId);
    if (key !== undefined) this.#commands.delete(key);
    this.#breakpoints.delete(breakpointId);
  }

  #forgetDomain(domain: string): void {
    for (const key of [...this.#commands.keys()]) if (key.startsWith(`${domain}.`)) this.#commands.delete(key);
  }
}
