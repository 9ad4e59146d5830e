// The page's side of the worker that checks code: it starts the worker, sends requests, and ends a worker that takes too long.
import type { ToolFacts } from "./granted-types.ts";
import type { CheckResponse, EditorCheckRequest, EditorRequest } from "./messages.ts";
import type { EditorCompletions, EditorDescription, EditorDiagnostic } from "./tool-service.ts";
import workerUrl from "./worker.ts?worker&url";

/** What the editor shows about the checks. */
export type CheckState = "loading" | "ready" | "stopped" | "failed";

/** The first check loads the compiler. */
const START_MS = 60_000;
const ANSWER_MS = 10_000;

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The page's policy lets scripts create no URL of a script but this one. */
function trustedWorkerUrl(): string {
  const { trustedTypes } = globalThis as unknown as {
    readonly trustedTypes?: {
      createPolicy(
        name: string,
        rules: { createScriptURL: (url: string) => string },
      ): {
        createScriptURL(url: string): unknown;
      };
    };
  };
  if (trustedTypes === undefined) return workerUrl;
  policy ??= trustedTypes.createPolicy("glovebox-editor", { createScriptURL: () => workerUrl });
  return policy.createScriptURL("") as string;
}
let policy: { createScriptURL(url: string): unknown } | undefined;

export class EditorTypeChecker {
  readonly #onState: (state: CheckState) => void;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #hasAnswered = false;
  #lastId = 0;
  /** The text whose check took too long: it is not checked again. */
  #stoppedBy: string | undefined;
  #facts: ToolFacts = { allowed: [], granted: undefined, tools: [] };

  constructor(onState: (state: CheckState) => void) {
    this.#onState = onState;
  }

  set facts(facts: ToolFacts) {
    this.#facts = facts;
  }

  diagnostics(text: string): Promise<readonly EditorDiagnostic[] | undefined> {
    return this.#ask(text, { kind: "diagnostics" });
  }

  completions(text: string, position: number, isExplicit: boolean): Promise<EditorCompletions | undefined> {
    return this.#ask(text, { kind: "completions", position, isExplicit });
  }

  describeCompletion(text: string, position: number, label: string): Promise<EditorDescription | undefined> {
    return this.#ask(text, { kind: "completion", position, label });
  }

  describe(text: string, position: number): Promise<EditorDescription | undefined> {
    return this.#ask(text, { kind: "describe", position });
  }

  dispose(): void {
    this.#end();
  }

  /** @returns undefined if the worker failed or was ended */
  async #ask<Value>(text: string, request: EditorRequest): Promise<Value | undefined> {
    if (text === this.#stoppedBy) return undefined;
    const worker = this.#open();
    const id = ++this.#lastId;
    const facts = this.#facts;
    const timer = setTimeout(
      () => {
        this.#stoppedBy = text;
        this.#end();
        this.#onState("stopped");
      },
      this.#hasAnswered ? ANSWER_MS : START_MS,
    );
    try {
      const value = await new Promise<unknown>((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        worker.postMessage({ id, request, text, facts } satisfies EditorCheckRequest);
      });
      return value as Value | undefined;
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }

  #open(): Worker {
    if (this.#worker !== undefined) return this.#worker;
    this.#onState("loading");
    const worker = new Worker(trustedWorkerUrl(), { type: "module" });
    worker.addEventListener("message", ({ data }: MessageEvent<CheckResponse>) => {
      this.#hasAnswered = true;
      this.#onState("ready");
      const waiting = this.#waiting.get(data.id);
      if ("error" in data) waiting?.reject(new Error(data.error));
      else waiting?.resolve(data.value);
    });
    worker.addEventListener("error", () => {
      this.#end();
      this.#onState("failed");
    });
    this.#worker = worker;
    return worker;
  }

  #end(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#hasAnswered = false;
    for (const { reject } of this.#waiting.values()) reject(new Error("The worker has ended"));
  }
}
