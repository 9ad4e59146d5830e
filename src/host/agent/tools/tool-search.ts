// Search over tools: ranks them with BM25 over names, titles, descriptions and parameters, so that a model is shown only a few of many.
// Tool authors write the descriptions, so the amount of text that counts is limited.
import MiniSearch from "minisearch";
import type { JsonSchema, ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { synonymsOf, toTerm, toWords } from "./search-terms.ts";

/** The indexed text of a tool. */
interface ToolDocument {
  readonly id: number;
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly parameters: string;
}

/** A name is the shortest and most specific text, so it weighs most. */
const BOOSTS = { name: 4, title: 3, description: 2, parameters: 1 } as const;
/** Indexed length of each field of a tool: repeating a word in a long description must not improve its rank. */
const MAX_TEXT_LENGTH = 1_000;
/**
 * Indexed length of all descriptions together, and of all parameters: 1,000 tools have 300 characters each. A text of distinct words makes
 * an index a hundred times its size (measured).
 */
const MAX_TOTAL_LENGTH = 300_000;
const MIN_TEXT_LENGTH = 100;
/** Number of words of a request that are searched. */
const MAX_QUERY_WORDS = 32;
const MAX_QUERY_LENGTH = 8_000;
/** Number of unknown words that are matched fuzzily as typing errors: each costs a walk through the index. */
const MAX_FUZZY_TERMS = 4;
const MAX_SCHEMA_NODES = 200;

/** Returns the names, titles, descriptions and enum values of the parameters. */
function textOfSchema(schema: JsonSchema, maxLength: number): string {
  const texts: string[] = [];
  const open: unknown[] = [schema];
  let length = 0;
  const add = (value: unknown): void => {
    if (typeof value !== "string" || length > maxLength) return;
    texts.push(value.slice(0, maxLength - length));
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
  const maxLength = Math.max(MIN_TEXT_LENGTH, Math.min(MAX_TEXT_LENGTH, Math.floor(MAX_TOTAL_LENGTH / length)));
  return {
    id,
    name,
    title: annotations?.title ?? "",
    description: description.slice(0, maxLength),
    parameters: textOfSchema(inputSchema, maxLength),
  };
}

/** Returns the edit distance of a fuzzy match: 2 for longer words, so that swapped letters match; none for short words. */
function fuzzyOf(term: string): number | false {
  if (term.length < 4) return false;
  return term.length < 7 ? 1 : 2;
}
const isPrefix = (term: string): boolean => term.length >= 4;
/** An exact match counts more than a synonym, a prefix or a fuzzy match. */
const WEIGHTS = { synonym: 0.5, prefix: 0.4, fuzzy: 0.25 } as const;
/** Tools that are indexed in one turn of the event loop: 1,000 tools take a tenth of a second. */
const BATCH_SIZE = 10;

/** A search index of a set of tools. Immutable. */
export class ToolIndex {
  readonly #definitions: readonly ToolDefinition[];
  readonly #index: MiniSearch<ToolDocument>;
  /** All indexed terms. */
  readonly #known = new Set<string>();
  /** Resolves when all tools are indexed. */
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
      // Documents are never removed.
      autoVacuum: false,
    });
    this.ready = this.#index.addAllAsync(definitions.map(toDocument), { chunkSize: BATCH_SIZE });
  }

  get termCount(): number {
    return this.#known.size;
  }

  /** Returns whether the index was built from these definition objects, in this order. */
  isBuiltFrom(definitions: readonly ToolDefinition[]): boolean {
    const own = this.#definitions;
    return own.length === definitions.length && own.every((definition, index) => definition === definitions[index]);
  }

  /** Returns at most `limit` (1 or more) matching tools, best first. Tools that share no word with the request are left out. */
  search(request: string, limit: number): readonly ToolDefinition[] {
    const words = toWords(request.slice(0, MAX_QUERY_LENGTH)).map(toTerm);
    const requested = new Set(words.filter((term) => term !== null).slice(0, MAX_QUERY_WORDS));
    const terms = new Set([...requested, ...[...requested].flatMap(synonymsOf)]);
    // A word that occurs in the index is not a typing error.
    const fuzzyTerms = new Set([...requested].filter((term) => !this.#known.has(term)).slice(0, MAX_FUZZY_TERMS));
    const found = this.#index.search([...terms].join(" "), {
      // The query consists of terms already.
      tokenize: (text) => text.split(" "),
      processTerm: (term) => term,
      boost: BOOSTS,
      boostTerm: (term) => (requested.has(term) ? 1 : WEIGHTS.synonym),
      // Synonyms are matched exactly.
      prefix: (term) => requested.has(term) && isPrefix(term),
      fuzzy: (term) => fuzzyTerms.has(term) && fuzzyOf(term),
      weights: WEIGHTS,
      combineWith: "OR",
    });
    return found.slice(0, limit).map(({ id }) => this.#definitions[id as number] as ToolDefinition);
  }
}

/** Indexes that are cached, so that busy tenants share them; and the total of their terms, about 1 KB each. */
const MAX_INDEXES = 32;
const MAX_TERMS = 250_000;

/** Caches search indexes of tool sets. An index is dropped when its set changes or others were used more recently. */
export class ToolSearch {
  #indexes: ToolIndex[] = [];

  /** Returns the index of these definitions, reusing the cached one if all definition objects are the same. */
  async indexOf(definitions: readonly ToolDefinition[]): Promise<ToolIndex> {
    const index = this.#indexes.find((each) => each.isBuiltFrom(definitions)) ?? new ToolIndex([...definitions]);
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
