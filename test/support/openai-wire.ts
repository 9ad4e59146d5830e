// The output of a model in both forms of OpenAI's API: whole responses and stream events, as their reference documents them.

/** One output item of a model. A tool call's `arguments` are text as the model writes it; other values are serialized to JSON. */
export type Said =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "refusal"; readonly text: string }
  | { readonly type: "reasoning"; readonly id?: string; readonly summary?: string; readonly encrypted?: string }
  | {
      readonly type: "call";
      readonly id: string;
      readonly name: string;
      readonly arguments: unknown;
      /** A custom tool's call: its input is free text. */
      readonly custom?: boolean;
      readonly namespace?: string;
    }
  /** Any other item of the Responses API, as it is. */
  | { readonly type: "item"; readonly item: Json };

export type Json = { readonly [key: string]: unknown };

export interface SaidOptions {
  readonly model?: string;
  /** Units of text in one delta. */
  readonly deltaUnits?: number;
  /** Ends as if the answer had become too long. */
  readonly incomplete?: boolean;
}

const USAGE = { input: 40, output: 20 } as const;
const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

function cut(text: string, units: number): string[] {
  const parts: string[] = [];
  for (let at = 0; at < text.length; at += units) parts.push(text.slice(at, at + units));
  return parts;
}

/** Returns the item of a Responses output; `begun` is the item in `response.output_item.added`. */
function toItem(said: Said, index: number, begun: boolean): Json {
  const status = begun ? "in_progress" : "completed";
  switch (said.type) {
    case "text":
    case "refusal": {
      const part =
        said.type === "text"
          ? { type: "output_text", text: said.text, annotations: [], logprobs: [] }
          : { type: "refusal", refusal: said.text };
      return { id: `msg_${index}`, type: "message", role: "assistant", status, content: begun ? [] : [part] };
    }
    case "reasoning": {
      const summary = said.summary === undefined || begun ? [] : [{ type: "summary_text", text: said.summary }];
      const encrypted = said.encrypted === undefined ? {} : { encrypted_content: begun ? "" : said.encrypted };
      return { id: said.id ?? `rs_${index}`, type: "reasoning", summary, ...encrypted };
    }
    case "call": {
      const { id, name, custom = false, namespace } = said;
      const text = begun ? "" : textOf(said.arguments);
      const own = custom ? { type: "custom_tool_call", input: text } : { type: "function_call", arguments: text };
      const where = namespace === undefined ? {} : { namespace };
      return { id: `${custom ? "ctc" : "fc"}_${index}`, status, ...own, call_id: id, name, ...where };
    }
    case "item":
      return said.item;
  }
}

/** A whole response of the Responses API. */
export function toResponse(
  said: readonly Said[],
  { model = "test-model", incomplete = false }: SaidOptions = {},
): Json {
  return {
    id: "resp_1",
    object: "response",
    created_at: 1_790_000_000,
    status: incomplete ? "incomplete" : "completed",
    error: null,
    incomplete_details: incomplete ? { reason: "max_output_tokens" } : null,
    model,
    output: said.map((each, index) => toItem(each, index, false)),
    parallel_tool_calls: true,
    tool_choice: "auto",
    tools: [],
    usage: {
      input_tokens: USAGE.input,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: USAGE.output,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: USAGE.input + USAGE.output,
    },
  };
}

function itemEvents(said: Said, index: number, units: number): Json[] {
  const item = toItem(said, index, false);
  const at = { item_id: item.id, output_index: index };
  const added = { type: "response.output_item.added", output_index: index, item: toItem(said, index, true) };
  const done = { type: "response.output_item.done", output_index: index, item };
  const deltas = (type: string, text: string, more: Json = {}): Json[] =>
    cut(text, units).map((delta) => ({ type, ...at, ...more, delta }));
  switch (said.type) {
    case "text": {
      const part = { ...at, content_index: 0 };
      const whole = { type: "output_text", text: said.text, annotations: [], logprobs: [] };
      return [
        added,
        { type: "response.content_part.added", ...part, part: { ...whole, text: "" } },
        ...deltas("response.output_text.delta", said.text, { content_index: 0, logprobs: [] }),
        { type: "response.output_text.done", ...part, text: said.text, logprobs: [] },
        { type: "response.content_part.done", ...part, part: whole },
        done,
      ];
    }
    case "refusal": {
      const part = { ...at, content_index: 0 };
      const whole = { type: "refusal", refusal: said.text };
      return [
        added,
        { type: "response.content_part.added", ...part, part: { ...whole, refusal: "" } },
        ...deltas("response.refusal.delta", said.text, { content_index: 0 }),
        { type: "response.refusal.done", ...part, refusal: said.text },
        { type: "response.content_part.done", ...part, part: whole },
        done,
      ];
    }
    case "call": {
      const name = said.custom === true ? "response.custom_tool_call_input" : "response.function_call_arguments";
      const text = textOf(said.arguments);
      const whole = said.custom === true ? { input: text } : { arguments: text };
      return [added, ...deltas(`${name}.delta`, text), { type: `${name}.done`, ...at, ...whole }, done];
    }
    default:
      return [added, done];
  }
}

/** The events of a stream of the Responses API, numbered. */
export function toResponseEvents(said: readonly Said[], options: SaidOptions = {}): Json[] {
  const whole = toResponse(said, options);
  const begun = { ...whole, status: "in_progress", output: [], usage: null, incomplete_details: null };
  const last = options.incomplete === true ? "response.incomplete" : "response.completed";
  return [
    { type: "response.created", response: begun },
    { type: "response.in_progress", response: begun },
    ...said.flatMap((each, index) => itemEvents(each, index, options.deltaUnits ?? 8)),
    { type: last, response: whole },
  ].map((event, index) => ({ ...event, sequence_number: index }));
}

type Call = Extract<Said, { type: "call" }>;
const isCall = (said: Said): said is Call => said.type === "call";

/** Said by a Chat Completions model: what it does not know (reasoning items) is left out. */
function toChatCall({ id, name, arguments: args, custom = false }: Call): Json {
  const text = textOf(args);
  return custom
    ? { id, type: "custom", custom: { name, input: text } }
    : { id, type: "function", function: { name, arguments: text } };
}

const joined = (said: readonly Said[], type: "text" | "refusal"): string | null =>
  said
    .filter((each) => each.type === type)
    .map((each) => (each as { readonly text: string }).text)
    .join("") || null;

const finishOf = (said: readonly Said[], incomplete: boolean): string => {
  if (incomplete) return "length";
  return said.some(isCall) ? "tool_calls" : "stop";
};

const CHAT_USAGE = {
  prompt_tokens: USAGE.input,
  completion_tokens: USAGE.output,
  total_tokens: USAGE.input + USAGE.output,
} as const;

/** A whole response of Chat Completions. */
export function toChatCompletion(
  said: readonly Said[],
  { model = "test-model", incomplete = false }: SaidOptions = {},
): Json {
  const calls = said.filter(isCall).map(toChatCall);
  const message = {
    role: "assistant",
    content: joined(said, "text"),
    refusal: joined(said, "refusal"),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_790_000_000,
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishOf(said, incomplete) }],
    usage: CHAT_USAGE,
  };
}

/** The chunks of a stream of Chat Completions; `[DONE]` is the server's. */
export function toChatChunks(said: readonly Said[], options: SaidOptions & { readonly usage?: boolean } = {}): Json[] {
  const { model = "test-model", deltaUnits = 8, incomplete = false, usage = true } = options;
  const chunk = (delta: Json, finish: string | null = null): Json => ({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_790_000_000,
    model,
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
    ...(usage ? { usage: null } : {}),
  });
  const deltas: Json[] = [];
  let index = 0;
  for (const each of said) {
    if (each.type === "text") deltas.push(...cut(each.text, deltaUnits).map((content) => ({ content })));
    else if (each.type === "refusal") deltas.push(...cut(each.text, deltaUnits).map((refusal) => ({ refusal })));
    else if (each.type === "call") {
      deltas.push(...callDeltas(each, index, deltaUnits));
      index += 1;
    }
  }
  return [
    chunk({ role: "assistant", content: index > 0 ? null : "", refusal: null }),
    ...deltas.map((delta) => chunk(delta)),
    chunk({}, finishOf(said, incomplete)),
    ...(usage ? [{ ...chunk({}), choices: [], usage: CHAT_USAGE }] : []),
  ];
}

function callDeltas(call: Call, index: number, units: number): Json[] {
  const { id, name, custom = false } = call;
  const kind = custom ? "custom" : "function";
  const field = custom ? "input" : "arguments";
  const first = { index, id, type: kind, [kind]: { name, [field]: "" } };
  const rest = cut(textOf(call.arguments), units).map((text) => ({ index, [kind]: { [field]: text } }));
  return [first, ...rest].map((each) => ({ tool_calls: [each] }));
}

/** As server-sent events: the Responses API names each, Chat Completions does not. */
export function toServerSentEvents(events: readonly Json[], { named }: { readonly named: boolean }): string[] {
  return events.map((event) => `${named ? `event: ${String(event.type)}\n` : ""}data: ${JSON.stringify(event)}\n\n`);
}
