// Converts calls in a model's answer to ModelToolCalls. A call that cannot be read has a problem, worded so that the model can correct it.
import { randomUUID } from "node:crypto";
import { isJsonObject } from "../../sandbox/contract/value-kind.ts";
import type { ModelToolCall } from "../agent/model.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { withoutPrefix } from "./tool-names.ts";
import type { OpenAITools } from "./tools.ts";
import { ANSWER_LIMITS, list, text } from "./wire.ts";

/** A call as the answer contains it, read field by field. */
export interface RawCall {
  readonly id: string | undefined;
  readonly itemId?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name: string | undefined;
  readonly kind: "function" | "custom";
  readonly argumentsText: string;
  /** Why the call could not be read completely. */
  readonly problem?: string | undefined;
}

/** Names of a wrapper tool that some models invent to call several tools at once; OpenAI's own prompts have used these names. */
const PARALLEL_NAMES: ReadonlySet<string> = new Set([
  ...["multi_tool_use.parallel", "multi_tool_use_parallel", "parallel", "parallel_tool_use"],
]);
const MAX_ID_LENGTH = 256;

export const CUT_OFF = "The answer was cut off before this call was complete; make it again";
export const ARGUMENTS_TOO_LONG = `Expected arguments of at most ${ANSWER_LIMITS.argumentChars} characters, got more`;
const tooLong = (what: string, most: number): string => `Expected ${what} of at most ${most} characters, got more`;

type Parsed = { readonly value: unknown } | undefined;

function parse(json: string): Parsed {
  try {
    return { value: JSON.parse(json) };
  } catch {
    return undefined;
  }
}

/** Returns whether the text is a complete JSON object: anything appended to it would make it invalid. */
export const isObjectText = (json: string): boolean => isJsonObject(parse(json)?.value);

/** Returns a call's arguments as text. Some providers send an object instead of its text, or nothing. */
export function argumentsTextOf(given: unknown): string {
  if (typeof given === "string") return given;
  if (given === undefined || given === null) return "";
  try {
    return JSON.stringify(given);
  } catch {
    return "";
  }
}

/** Converts the calls of one answer and makes their ids unique. */
export class CallReader {
  readonly #tools: OpenAITools | undefined;
  readonly #createId: (() => unknown) | undefined;
  readonly #ids = new Set<string>();
  #count = 0;

  /** @param createId returns an id, unique in a conversation, for a call that has none */
  constructor(tools?: OpenAITools, createId?: () => string) {
    this.#tools = tools;
    this.#createId = createId;
  }

  /** Returns one call, or the calls in a parallel wrapper; none beyond the limits. */
  read(raw: RawCall): readonly ModelToolCall[] {
    if (this.#count > ANSWER_LIMITS.calls) return [];
    const inner = raw.problem === undefined ? this.#unwrapParallel(raw) : undefined;
    if (inner === undefined) return this.#admit(raw);
    return inner.flatMap((each) => this.#admit(each));
  }

  #admit(raw: RawCall): readonly ModelToolCall[] {
    this.#count += 1;
    const { calls } = ANSWER_LIMITS;
    if (this.#count > calls + 1) return [];
    if (this.#count <= calls) return [this.#toCall(raw)];
    const problem = `Expected at most ${calls} calls in one answer; this call and the following ones were not run`;
    return [this.#toCall({ ...raw, problem })];
  }

  #toCall(raw: RawCall): ModelToolCall {
    const { name = "", namespace, itemId, kind } = raw;
    const { nameChars, argumentChars } = ANSWER_LIMITS;
    const { names } = this.#tools ?? {};
    const toolName = names?.toToolName(name.slice(0, nameChars), namespace) ?? name.slice(0, nameChars);
    const call = {
      id: this.#idOf(raw.id),
      toolName,
      argumentsText: raw.argumentsText.slice(0, argumentChars),
      kind,
      ...(itemId === undefined ? {} : { itemId: itemId.slice(0, MAX_ID_LENGTH) }),
    };
    const problem = raw.problem ?? this.#findIssue(raw, name);
    if (problem !== undefined) return { ...call, toolName: toolName || "unnamed", problem };
    const parsed = this.#argumentsOf(call);
    return parsed === undefined ? call : { ...call, arguments: parsed.value };
  }

  #findIssue({ argumentsText }: RawCall, name: string): string | undefined {
    const { nameChars, argumentChars } = ANSWER_LIMITS;
    if (name === "") return "Expected a tool name, got none";
    if (name.length > nameChars) return tooLong("a tool name", nameChars);
    if (argumentsText.length > argumentChars) return ARGUMENTS_TOO_LONG;
    return argumentsText.isWellFormed() ? undefined : "Expected well-formed Unicode, got a lone surrogate";
  }

  /** Returns undefined for text that is not JSON: the router repairs it or reports where it is invalid. */
  #argumentsOf({ toolName, argumentsText, kind }: Pick<ModelToolCall, "toolName" | "argumentsText" | "kind">): Parsed {
    const reading = this.#tools?.readingOf(toolName);
    if (kind === "custom" && reading?.textProperty !== undefined) {
      return { value: { [reading.textProperty]: argumentsText } };
    }
    if (/^\s{0,100}$/.test(argumentsText)) return { value: {} };
    const parsed = parse(argumentsText);
    if (parsed === undefined || reading === undefined) return parsed;
    const value = reading.isWrapped ? unwrapInput(parsed.value) : parsed.value;
    return { value: reading.withoutNulls?.(value) ?? value };
  }

  #idOf(given: string | undefined): string {
    const wanted = given === undefined || given === "" ? this.#newId() : given.slice(0, MAX_ID_LENGTH);
    let id = wanted;
    for (let number = 2; this.#ids.has(id); number += 1) id = `${wanted}_${number}`;
    this.#ids.add(id);
    return id;
  }

  /** Returns an id from the host's function, or a random one if the function fails. */
  #newId(): string {
    try {
      const id = this.#createId?.();
      if (typeof id === "string" && id !== "" && id.length <= MAX_ID_LENGTH) return id;
      ignoreOutcome(() => id);
    } catch {
      // Fall back to a random id.
    }
    return `call_${randomUUID().replaceAll("-", "")}`;
  }

  /** Returns the calls in a parallel wrapper; undefined if it is another tool or cannot be read. */
  #unwrapParallel(raw: RawCall): readonly RawCall[] | undefined {
    const { name = "", argumentsText } = raw;
    const bare = withoutPrefix(name);
    if (!PARALLEL_NAMES.has(bare) || [name, bare].some((each) => this.#tools?.names.has(each))) return undefined;
    if (argumentsText.length > ANSWER_LIMITS.argumentChars) return undefined;
    const parsed = parse(argumentsText)?.value;
    if (!isJsonObject(parsed)) return undefined;
    const uses = list(parsed.tool_uses ?? parsed.tool_calls ?? parsed.calls);
    const calls = uses.slice(0, ANSWER_LIMITS.calls + 1).flatMap((use, at): RawCall[] => {
      if (!isJsonObject(use)) return [];
      const recipient = text(use.recipient_name) ?? text(use.name) ?? text(use.tool_name);
      const args = argumentsTextOf(use.parameters ?? use.arguments ?? use.args);
      const id = raw.id === undefined || raw.id === "" ? undefined : `${raw.id.slice(0, 56)}_${at + 1}`;
      return [{ id, itemId: raw.itemId, name: recipient, kind: "function", argumentsText: args }];
    });
    return calls.length === 0 ? undefined : calls;
  }
}

/** Returns the value of `input` if it is the only property. */
export function unwrapInput(value: unknown): unknown {
  return isJsonObject(value) && Object.hasOwn(value, "input") && Object.keys(value).length === 1 ? value.input : value;
}
