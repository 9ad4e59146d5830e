// JMESPath: the query language of the AWS and Azure command lines. Its errors carry no position: it is worked out here.
import { compile, search, tokenize } from "@jmespath-community/jmespath";
import { describePosition } from "./query-position.ts";

type JmespathData = Parameters<typeof search>[0];

/** Working out a position parses the query again and again; past this length the message does without. */
const MAX_LOCATED_CHARACTERS = 2_000;

/**
 * @returns the result, or undefined when nothing matched (which JMESPath, that has only null for it, cannot tell from null)
 * @throws {Error} saying where the query is wrong
 */
export function queryJmespath(query: string, data: unknown): unknown {
  const fault = compileError(query);
  if (fault !== undefined) {
    const position = query.length > MAX_LOCATED_CHARACTERS ? undefined : locateFault(query);
    const where = position === undefined ? "" : ` at ${describePosition(query, position)}`;
    throw new Error(`The JMESPath query is not valid${where}: ${fault}`);
  }
  try {
    return search(data as JmespathData, query) ?? undefined;
  } catch (error) {
    throw new Error(`The JMESPath query failed: ${messageOf(error)}`);
  }
}

function compileError(query: string): string | undefined {
  try {
    compile(query);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The offset of the first token that no valid query could have there, or of the character that begins no token. */
function locateFault(query: string): number {
  const starts = tokenStarts(query);
  if (starts === undefined) return longestReadablePrefix(query);
  // The query up to a token before the fault is merely unfinished; up to any later one, it is wrong.
  let unfinished = 0;
  let wrong = starts.length;
  while (wrong - unfinished > 1) {
    const middle = (unfinished + wrong) >> 1;
    if (isUnfinished(query.slice(0, starts[middle]))) unfinished = middle;
    else wrong = middle;
  }
  return isUnfinished(query) ? query.length : (starts[unfinished] ?? query.length);
}

function tokenStarts(query: string): readonly number[] | undefined {
  try {
    return tokenize(query).map(({ start }) => start);
  } catch {
    return undefined;
  }
}

function isUnfinished(query: string): boolean {
  const fault = compileError(query);
  return fault === undefined || /\(EOF\)|(?:got|type): EOF\b/.test(fault);
}

function longestReadablePrefix(query: string): number {
  for (let length = query.length - 1; length > 0; length -= 1) {
    if (tokenStarts(query.slice(0, length)) !== undefined) return length;
  }
  return 0;
}
