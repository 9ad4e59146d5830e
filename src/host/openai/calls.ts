// Calls in: what a model wrote of a call, gathered from pieces, as ModelToolCalls. What cannot be read has a problem that it can mend.
import { randomUUID } from "node:crypto";
import type { ModelToolCall } from "../agent/model.ts";
import { ignoreOutcome } from "../util/host-callback.ts";
import { withoutPrefix } from "./tool-names.ts";
import type { OpenAITools } from "./tools.ts";
import { ANSWER_LIMITS, isRecord, list, text } from "./wire.ts";

/** A call as it stands in an answer, read field by field. */
export interface WrittenCall {
  readonly id: string | undefined;
  readonly itemId?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name: string | undefined;
  readonly kind: "function" | "custom";
  readonly argumentsText: string;
  /** Why it was not read to its end. */
  readonly problem?: string | undefined;
}

/** A wrapper that some models make up to call several tools at once; OpenAI's own prompts have named it so. */
const PARALLEL_NAMES: ReadonlySet<string> = new Set([
  ...["multi_tool_use.parallel", "multi_tool_use_parallel", "parallel", "parallel_tool_use"],
]);
const MAX_ID_CHARS = 256;

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

/** Nothing can be added to such a text that leaves it JSON. */
export const isObjectText = (json: string): boolean => isRecord(parse(json)?.value);

/** Where a provider sends an object in the place of its text, or nothing. */
export function argumentsTextOf(given: unknown): string {
  if (typeof given === "string") return given;
  if (given === undefined || given === null) return "";
  try {
    return JSON.stringify(given);
  } catch {
    return "";
  }
}

/** Makes the calls of one answer: every id in it once. */
export class CallReader {
  readonly #tools: OpenAITools | undefined;
  readonly #createId: (() => unknown) | undefined;
  readonly #ids = new Set<string>();
  #count = 0;

  /** @param createId for calls that a provider gives no id; unique in a conversation */
  constructor(tools?: OpenAITools, createId?: () => string) {
    this.#tools = tools;
    this.#createId = createId;
  }

  /** One call, or those in a wrapper; none past the bounds. */
  read(written: WrittenCall): readonly ModelToolCall[] {
    if (this.#count > ANSWER_LIMITS.calls) return [];
    const inner = written.problem === undefined ? this.#unwrapParallel(written) : undefined;
    if (inner === undefined) return this.#admit(written);
    return inner.flatMap((each) => this.#admit(each));
  }

  #admit(written: WrittenCall): readonly ModelToolCall[] {
    this.#count += 1;
    const { calls } = ANSWER_LIMITS;
    if (this.#count > calls + 1) return [];
    if (this.#count <= calls) return [this.#toCall(written)];
    const problem = `Expected at most ${calls} calls in one answer; this one and those after it were not run`;
    return [this.#toCall({ ...written, problem })];
  }

  #toCall(written: WrittenCall): ModelToolCall {
    const { name = "", namespace, itemId, kind } = written;
    const { nameChars, argumentChars } = ANSWER_LIMITS;
    const { names } = this.#tools ?? {};
    const toolName = names?.toToolName(name.slice(0, nameChars), namespace) ?? name.slice(0, nameChars);
    const call = {
      id: this.#idOf(written.id),
      toolName,
      argumentsText: written.argumentsText.slice(0, argumentChars),
      kind,
      ...(itemId === undefined ? {} : { itemId: itemId.slice(0, MAX_ID_CHARS) }),
    };
    const problem = written.problem ?? this.#problemOf(written, name);
    if (problem !== undefined) return { ...call, toolName: toolName || "unnamed", problem };
    const parsed = this.#argumentsOf(call);
    return parsed === undefined ? call : { ...call, arguments: parsed.value };
  }

  #problemOf({ argumentsText }: WrittenCall, name: string): string | undefined {
    const { nameChars, argumentChars } = ANSWER_LIMITS;
    if (name === "") return "Expected the name of a tool, got none";
    if (name.length > nameChars) return tooLong("a tool's name", nameChars);
    if (argumentsText.length > argumentChars) return ARGUMENTS_TOO_LONG;
    return argumentsText.isWellFormed() ? undefined : "Expected text in Unicode, got half of a surrogate pair";
  }

  /** Undefined for what is no JSON: the router says where, or repairs it. */
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
    const wanted = given === undefined || given === "" ? this.#newId() : given.slice(0, MAX_ID_CHARS);
    let id = wanted;
    for (let number = 2; this.#ids.has(id); number += 1) id = `${wanted}_${number}`;
    this.#ids.add(id);
    return id;
  }

  /** Of the host's function, if that returns one; else a random one. */
  #newId(): string {
    try {
      const id = this.#createId?.();
      if (typeof id === "string" && id !== "" && id.length <= MAX_ID_CHARS) return id;
      ignoreOutcome(() => id);
    } catch {
      // The call needs an id all the same.
    }
    return `call_${randomUUID().replaceAll("-", "")}`;
  }

  /** The calls in a made-up `parallel`; undefined for any other, and for one that cannot be read. */
  #unwrapParallel(written: WrittenCall): readonly WrittenCall[] | undefined {
    const { name = "", argumentsText } = written;
    const bare = withoutPrefix(name);
    if (!PARALLEL_NAMES.has(bare) || [name, bare].some((each) => this.#tools?.names.has(each))) return undefined;
    if (argumentsText.length > ANSWER_LIMITS.argumentChars) return undefined;
    const parsed = parse(argumentsText)?.value;
    if (!isRecord(parsed)) return undefined;
    const uses = list(parsed.tool_uses ?? parsed.tool_calls ?? parsed.calls);
    const calls = uses.slice(0, ANSWER_LIMITS.calls + 1).flatMap((use, at): WrittenCall[] => {
      if (!isRecord(use)) return [];
      const recipient = text(use.recipient_name) ?? text(use.name) ?? text(use.tool_name);
      const args = argumentsTextOf(use.parameters ?? use.arguments ?? use.args);
      const id = written.id === undefined || written.id === "" ? undefined : `${written.id.slice(0, 56)}_${at + 1}`;
      return [{ id, itemId: written.itemId, name: recipient, kind: "function", argumentsText: args }];
    });
    return calls.length === 0 ? undefined : calls;
  }
}

/** What stands under `input`, if that is all there is. */
function unwrapInput(value: unknown): unknown {
  return isRecord(value) && Object.hasOwn(value, "input") && Object.keys(value).length === 1 ? value.input : value;
}
