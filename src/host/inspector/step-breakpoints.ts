// Keeps a step of DevTools across an `await` for the host. V8 forgets a step when the isolate changes its thread, which isolated-vm lets it do
// whenever something arrives from the host: the tool would run on to its end. Breakpoints stay with the script, so during a step each statement
// of the functions on the stack has one.
import * as z from "zod";
import type { InspectorCommand } from "./client-state.ts";
import type { DevToolsMessage } from "./devtools-message.ts";

/** Functions of the stack, from the innermost one, whose statements get breakpoints. */
const MAX_FUNCTIONS = 8;
/** Breakpoints of one step. */
const MAX_BREAKPOINTS = 500;

const LocationSchema = z.looseObject({
  scriptId: z.string().max(100),
  lineNumber: z.int().min(0),
  columnNumber: z.int().min(0).default(0),
});
const FrameSchema = z.looseObject({
  functionLocation: LocationSchema,
  scopeChain: z.array(z.looseObject({ type: z.string(), endLocation: LocationSchema.optional() })).max(1_000),
});
const LocationsSchema = z.array(LocationSchema.extend({ type: z.string().optional() }));
type Location = z.infer<typeof LocationSchema>;
type Frame = z.infer<typeof FrameSchema>;

const STEPS: ReadonlySet<string> = new Set(["Debugger.stepOver", "Debugger.stepInto", "Debugger.stepOut"]);

/** Returns where the places of a frame's function are. */
function rangeOf({ functionLocation: start, scopeChain }: Frame): object | undefined {
  const end = scopeChain.find(({ type }) => type === "local")?.endLocation;
  return end === undefined ? undefined : { start, end, restrictToFunction: true };
}

/**
 * Returns the places at which a statement or the end of a function is. V8 calls a statement that begins with a call a call too: it is the first
 * place of its line, while calls within a statement follow another place.
 */
function statementsOf(places: z.infer<typeof LocationsSchema>): readonly Location[] {
  return places.filter(
    ({ type, lineNumber }, index) => type !== "call" || places[index - 1]?.lineNumber !== lineNumber,
  );
}

export class StepBreakpoints {
  readonly #request: (command: InspectorCommand) => number;
  readonly #toolScripts = new Set<string>();
  /** Frames of the tool's own code at the current pause; undefined while the tool runs. */
  #frames: readonly Frame[] | undefined;
  /** A step that waits for the places of its functions, by the ids of the hub's requests. */
  #planned: { readonly ids: Set<number>; readonly places: Location[]; readonly go: () => void } | undefined;
  /** Number of frames in which a step over or out of something may end; undefined if it may end at each depth. */
  #depth: number | undefined;
  readonly #open = new Set<number>();
  readonly #breakpoints = new Set<string>();

  /** @param request sends a request of the hub, and returns its id */
  constructor(request: (command: InspectorCommand) => number) {
    this.#request = request;
  }

  /** Forgets everything about an isolate. */
  clear(): void {
    this.#frames = undefined;
    this.#planned = undefined;
    for (const known of [this.#toolScripts, this.#open, this.#breakpoints]) known.clear();
  }

  onToolScript(scriptId: unknown): void {
    if (typeof scriptId === "string") this.#toolScripts.add(scriptId);
  }

  /** Prepares a step if the message is one. Returns whether it calls `go` later, to pass the message on. */
  prepare({ method: step = "" }: DevToolsMessage, go: () => void): boolean {
    if (!STEPS.has(step) || this.#frames === undefined || this.#planned !== undefined) return false;
    const frames = step === "Debugger.stepOut" ? this.#frames.slice(1) : this.#frames;
    this.#depth = step === "Debugger.stepInto" ? undefined : frames.length;
    const ranges = new Map<string, object>();
    for (const frame of frames) {
      const range = rangeOf(frame);
      if (range !== undefined) ranges.set(JSON.stringify(range), range);
      if (ranges.size === MAX_FUNCTIONS) break;
    }
    if (ranges.size === 0) return false;
    const method = "Debugger.getPossibleBreakpoints";
    const ids = [...ranges.values()].map((params) => this.#request({ method, params: { ...params } }));
    this.#planned = { ids: new Set(ids), places: [], go };
    return true;
  }

  /** Processes the response to a request of the hub. */
  onResponse({ id = 0, result }: DevToolsMessage): void {
    const planned = this.#planned;
    if (this.#open.delete(id)) {
      const breakpointId = result?.breakpointId;
      if (typeof breakpointId === "string") this.#breakpoints.add(breakpointId);
    } else if (planned?.ids.delete(id) === true) {
      const { data = [] } = LocationsSchema.safeParse(result?.locations);
      planned.places.push(...statementsOf(data).slice(0, MAX_BREAKPOINTS));
      if (planned.ids.size === 0) this.#begin(planned.places, planned.go);
    }
  }

  #begin(places: readonly Location[], go: () => void): void {
    this.#planned = undefined;
    for (const { scriptId, lineNumber, columnNumber } of places.slice(0, MAX_BREAKPOINTS)) {
      const location = { scriptId, lineNumber, columnNumber };
      this.#open.add(this.#request({ method: "Debugger.setBreakpoint", params: { location } }));
    }
    go();
  }

  /**
   * Processes a pause. Returns the event for the client, without the breakpoints of the step; undefined if the tool has to continue, because it
   * is in a deeper call of a function that is stepped over.
   */
  onPaused(params: NonNullable<DevToolsMessage["params"]>): object | undefined {
    const frames = this.#toolFrames(params.callFrames);
    const hit = Array.isArray(params.hitBreakpoints) ? (params.hitBreakpoints as readonly unknown[]) : [];
    const others = hit.filter((id) => typeof id !== "string" || !this.#breakpoints.has(id));
    const isDeeper = this.#depth !== undefined && frames.length > this.#depth;
    if (isDeeper && hit.length > 0 && others.length === 0) return undefined;
    this.#frames = frames;
    for (const breakpointId of this.#breakpoints)
      this.#request({ method: "Debugger.removeBreakpoint", params: { breakpointId } });
    this.#breakpoints.clear();
    return hit.length === others.length ? params : { ...params, hitBreakpoints: others };
  }

  /**
   * Parses the frames, which come from a worker. Frames of the guest platform are left out: a pause in them could block the worker process, and
   * how many there are depends on what continued the tool.
   */
  #toolFrames(callFrames: unknown): readonly Frame[] {
    return (Array.isArray(callFrames) ? (callFrames as readonly unknown[]) : []).flatMap((frame) => {
      const { data } = FrameSchema.safeParse(frame);
      return data !== undefined && this.#toolScripts.has(data.functionLocation.scriptId) ? [data] : [];
    });
  }

  onResumed(): void {
    this.#frames = undefined;
  }
}
