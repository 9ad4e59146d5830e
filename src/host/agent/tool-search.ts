// Which of many tools a request may be about: BM25 over names, titles, descriptions and parameters, so that a model is shown a few and not
// a thousand. Descriptions are their authors': how much of one counts is bounded.
import MiniSearch from "minisearch";
import type { JsonSchema, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { synonymsOf, toTerm, toWords } from "./search-terms.ts";

/** What of a tool is looked at. */
interface ToolDocument {
  readonly id: number;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly parameters: string;
}

/** A name says most, and says it shortest. */
const BOOSTS = { name: 4, title: 3, description: 2, parameters: 1 } as const;
/** Of each field of a tool so much counts: one that repeats itself at length is not the better for it. */
const MAX_TEXT_UNITS = 1_000;
/** Of all descriptions together, and of all parameters: 1,000 tools have 300 characters each. A text of words that are all different makes an
 * index a hundred times its size [m]. */
const MAX_ALL_UNITS = 300_000;
const MIN_TEXT_UNITS = 100;
/** Words of a request: one that is longer has said what it wants before. */
const MAX_QUERY_WORDS = 32;
const MAX_QUERY_UNITS = 8_000;
/** Words that stand in no tool, and are taken for slips: each costs a walk through the index. */
const MAX_SLIPS = 4;
const MAX_SCHEMA_NODES = 200;

/** Names, titles and descriptions of the parameters, and the words that may be chosen from. */
function textOfSchema(schema: JsonSchema, units: number): string {
  const texts: string[] = [];
  const open: unknown[] = [schema];
  let length = 0;
  const add = (value: unknown): void => {
    if (typeof value !== "string" || length > units) return;
    texts.push(value.slice(0, units - length));
    length += value.length + 1;
  };
  for (let index = 0; index < open.length && index < MAX_SCHEMA_NODES; index += 1) {
    const node = open[index];
    if (typeof node !== "object" || node === null) continue;
    const {
      properties,
      items,
      anyOf,
      oneOf,
      allOf,
      enum: choices,
      ...rest
    } = node as { readonly [key: string]: unknown };
    if (node !== schema) for (const text of [rest.title, rest.description]) add(text);
    if (Array.isArray(choices)) choices.slice(0, 20).forEach(add);
    if (typeof properties === "object" && properties !== null) {
      for (const [name, each] of Object.entries(properties)) {
        add(name);
        open.push(each);
      }
    }
    open.push(items, ...[anyOf, oneOf, allOf].flatMap((each) => (Array.isArray(each) ? each : [])));
  }
  return texts.join(" ");
}

function toDocument(
  { name, description, annotations, inputSchema }: ToolDefinition,
  id: number,
  { length }: readonly ToolDefinition[],
): ToolDocument {
  const units = Math.max(MIN_TEXT_UNITS, Math.min(MAX_TEXT_UNITS, Math.floor(MAX_ALL_UNITS / length)));
  return {
    ...{ id, name },
    title: annotations?.title ?? "",
    description: description.slice(0, units),
    parameters: textOfSchema(inputSchema, units),
  };
}

/** Letters that may differ: two of a longer word, as where they have changed places. Of a short one it is another word. */
function fuzzyOf(term: string): number | false {
  if (term.length < 4) return false;
  return term.length < 7 ? 1 : 2;
}
const isPrefix = (term: string): boolean => term.length >= 4;
/** A word that is there counts more than one that only means the same, or looks like it. */
const WEIGHTS = { synonym: 0.5, prefix: 0.4, fuzzy: 0.25 } as const;
/** Tools that are taken in at once, without another turn of the event loop: 1,000 take a tenth of a second. */
const CHUNK = 10;

/** An index of some tools. It does not change. */
export class ToolIndex {
  readonly #definitions: readonly ToolDefinition[];
  readonly #index: MiniSearch<ToolDocument>;
  /** All terms in it. */
  readonly #known = new Set<string>();
  /** Resolves when all tools are in it. */
  readonly ready: Promise<void>;

  constructor(definitions: readonly ToolDefinition[]) {
    this.#definitions = definitions;
    this.#index = new MiniSearch<ToolDocument>({
      fields: Object.keys(BOOSTS),
      tokenize: toWords,
      processTerm: (word) => {
        const term = toTerm(word);
        if (term !== null) this.#known.add(term);
        return term;
      },
      // Nothing is ever taken out of it.
      autoVacuum: false,
    });
    this.ready = this.#index.addAllAsync(definitions.map(toDocument), { chunkSize: CHUNK });
  }

  get termCount(): number {
    return this.#known.size;
  }

  /** Whether it is about these very definitions, in this order. */
  isOf(definitions: readonly ToolDefinition[]): boolean {
    const own = this.#definitions;
    return own.length === definitions.length && own.every((definition, index) => definition === definitions[index]);
  }

  /** The best first, at most `limit` (1 or more) of them; those that have no word of the request are not among them. */
  search(request: string, limit: number): readonly ToolDefinition[] {
    const words = toWords(request.slice(0, MAX_QUERY_UNITS)).map(toTerm);
    const said = new Set(words.filter((term) => term !== null).slice(0, MAX_QUERY_WORDS));
    const terms = new Set([...said, ...[...said].flatMap(synonymsOf)]);
    // What is there is meant.
    const slips = new Set([...said].filter((term) => !this.#known.has(term)).slice(0, MAX_SLIPS));
    const found = this.#index.search([...terms].join(" "), {
      // They are terms already.
      tokenize: (text) => text.split(" "),
      processTerm: (term) => term,
      boost: BOOSTS,
      boostTerm: (term) => (said.has(term) ? 1 : WEIGHTS.synonym),
      // What only means the same is looked for as it is.
      prefix: (term) => said.has(term) && isPrefix(term),
      fuzzy: (term) => slips.has(term) && fuzzyOf(term),
      weights: WEIGHTS,
      combineWith: "OR",
    });
    return found.slice(0, limit).map(({ id }) => this.#definitions[id as number] as ToolDefinition);
  }
}

/** Tool sets that are kept an index of, for tenants that are busy; and the terms of all of them, a kilobyte each. */
const MAX_INDEXES = 32;
const MAX_TERMS = 250_000;

/** Indexes of tool sets, each kept until its set changes and others have been asked for since. */
export class ToolSearch {
  #indexes: ToolIndex[] = [];

  /** The index of these definitions: the one made before, unless one of them is another object than then. */
  async indexOf(definitions: readonly ToolDefinition[]): Promise<ToolIndex> {
    const index = this.#indexes.find((each) => each.isOf(definitions)) ?? new ToolIndex([...definitions]);
    const newestFirst = [index, ...this.#indexes.filter((each) => each !== index)].slice(0, MAX_INDEXES);
    let terms = 0;
    this.#indexes = newestFirst.filter((each) => {
      terms += each.termCount;
      return each === index || terms <= MAX_TERMS;
    });
    await index.ready;
    return index;
  }
}
