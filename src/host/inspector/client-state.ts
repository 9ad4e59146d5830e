// State that a DevTools client sets and expects to persist: enabled domains, breakpoints, settings. Each call has its own isolate, so the
// state is sent again to every new isolate.
import type { DevToolsMessage } from "./devtools-message.ts";

/** Limit of stored entries, far more than a person sets. */
const MAX_ENTRIES = 1_000;
/** Longest parameters of a stored request, as JSON. A larger request is passed on, but not stored for the next isolate. */
const MAX_PARAMS_LENGTH = 64 * 1024;
/** Requests of which only the last one counts. */
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
  /** Requests in order of arrival: a domain must be enabled before its breakpoints are set. */
  readonly #commands = new Map<string, InspectorCommand>();
  /** Keys of open requests that set a breakpoint, by request id. The response contains the breakpoint's id. */
  readonly #pendingBreakpoints = new Map<number, string>();
  readonly #breakpoints = new Map<string, string>();

  /** The requests to send to a new isolate. */
  get commands(): readonly InspectorCommand[] {
    return [...this.#commands.values()];
  }

  onRequest({ id, method, params }: DevToolsMessage): void {
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
      if (id !== undefined && this.#pendingBreakpoints.size < MAX_ENTRIES) this.#pendingBreakpoints.set(id, key);
    }
  }

  onResponse({ id, result }: DevToolsMessage): void {
    const key = id === undefined ? undefined : this.#pendingBreakpoints.get(id);
    if (id === undefined || key === undefined) return;
    this.#pendingBreakpoints.delete(id);
    const breakpointId = result?.breakpointId;
    if (typeof breakpointId === "string") this.#breakpoints.set(breakpointId, key);
    // The request failed, and would fail again.
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
