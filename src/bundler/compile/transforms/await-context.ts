// Keeps AsyncLocalStorage contexts across native `await`. V8 resumes an async function without running any JavaScript of the guest, so a
// bundle that names node:async_hooks is rewritten to report where it suspends and resumes (`Activation` in
// guest/platform/process/async-context.ts). Functions stay native: stack traces, the number of microtasks and the debugger do not change.
import type { Options } from "acorn";
import { childrenOf, collectVars, FUNCTIONS, isSyntax, type Syntax } from "./syntax.ts";
import { type Insertion, insertText, type MappedScript } from "./text-edits.ts";

/** Expressions and names that the rewritten code uses. Nothing else in the bundle has these names. */
export interface ContextNames {
  /** Expression that evaluates to the class of activations. */
  readonly source: string;
  readonly activationClass: string;
  readonly activation: string;
}

/** The name may occur anywhere, as in `process.getBuiltinModule("async_hooks")`. A false positive only costs time. */
export const needsContext = (code: string): boolean => code.includes("async_hooks");

/** The implicit awaits of `await using` have no location in the text, so esbuild lowers them first. */
export const hasImplicitAwaits = (code: string): boolean => /\bawait using\b/.test(code);

/** One async function. Its insertions are used only if it contains an `await`. */
interface AsyncScope {
  readonly insertions: Insertion[];
  waits: boolean;
}

const isForAwait = (node: Syntax): boolean => node.type === "ForOfStatement" && node.await === true;

/** A function body may declare one name twice, as two functions or as a function and a `var`. A block may not. */
function canBeBlock(body: Syntax): boolean {
  const functions = (body.body as readonly Syntax[]).filter(({ type }) => type === "FunctionDeclaration");
  if (functions.length === 0) return true;
  const names = functions.map(({ id }) => String((id as Syntax).name));
  const vars = new Set<string>();
  collectVars(body, vars);
  return new Set(names).size === names.length && !names.some((name) => vars.has(name));
}

/** Returns the offset after the directives of a body. */
function startOf(body: Syntax): number {
  const directives = (body.body as readonly Syntax[]).filter(({ directive }) => typeof directive === "string");
  return directives.at(-1)?.end ?? body.start + 1;
}

/** Returns the body of the function that a bundle consists of: `(async (…) => { … })`. */
function bundleBody(program: Syntax): Syntax {
  const [{ expression }] = program.body as readonly [Syntax];
  return ((expression as Syntax).expression as Syntax).body as Syntax;
}

class ContextWriter {
  readonly insertions: Insertion[] = [];
  readonly #code: string;
  readonly #names: ContextNames;
  #scope: AsyncScope | undefined;
  #depth = 0;
  /** Loops that were enclosed together with their labels. */
  readonly #labelled = new Set<Syntax>();

  constructor(code: string, names: ContextNames) {
    this.#code = code;
    this.#names = names;
  }

  visit(node: Syntax): void {
    this.#depth += 1;
    if (FUNCTIONS.has(node.type)) this.#visitFunction(node);
    else {
      if (this.#scope !== undefined) this.#visitInAsync(node);
      for (const child of childrenOf(node)) this.visit(child);
    }
    this.#depth -= 1;
  }

  /** Inserts text so that inner openings follow outer ones, and inner closings precede outer ones. */
  #open(at: number, text: string): void {
    this.#scope?.insertions.push({ at, text, rank: this.#depth });
  }
  #close(at: number, text: string): void {
    this.#scope?.insertions.push({ at, text, rank: -this.#depth });
  }
  #wait(): void {
    if (this.#scope !== undefined) this.#scope.waits = true;
  }

  #visitFunction(node: Syntax): void {
    const outer = this.#scope;
    const body = node.body as Syntax;
    for (const child of childrenOf(node)) if (child !== body) this.visit(child);
    this.#scope = node.async === true ? { insertions: [], waits: false } : undefined;
    const scope = this.#scope;
    this.visit(body);
    if (scope?.waits) {
      this.#enclose(node, body);
      this.insertions.push(...scope.insertions);
    }
    this.#scope = outer;
  }

  /** Gives each call its own activation, which is notified when the function ends. */
  #enclose(node: Syntax, body: Syntax): void {
    const { activation, activationClass } = this.#names;
    const begin = `let ${activation} = new ${activationClass}();`;
    const end = `} finally { ${activation}.away(); }`;
    if (body.type !== "BlockStatement") {
      this.#open(body.start, `{ ${begin} try { return (`);
      this.#close(node.end, `); ${end} }`);
      return;
    }
    const first = startOf(body);
    const isBlock = canBeBlock(body);
    this.#open(first, isBlock ? ` ${begin} try {` : ` ${begin}`);
    if (isBlock) this.#close(body.end - 1, end);
  }

  #visitInAsync(node: Syntax): void {
    const { activation } = this.#names;
    switch (node.type) {
      case "AwaitExpression":
        this.#wait();
        this.#open(node.start, `${activation}.back(`);
        this.#open(node.start + "await".length, ` ${activation}.leave(`);
        this.#close(node.end, "))");
        break;
      case "YieldExpression":
        this.#visitYield(node);
        break;
      case "LabeledStatement": {
        let loop = node;
        while (loop.type === "LabeledStatement") loop = loop.body as Syntax;
        if (isForAwait(loop)) this.#encloseLoop(node, loop);
        break;
      }
      case "ForOfStatement":
        if (isForAwait(node)) this.#visitForAwait(node);
        break;
      case "CatchClause":
        this.#open((node.body as Syntax).start + 1, ` ${activation}.caught();`);
        break;
      case "TryStatement":
        if (isSyntax(node.finalizer)) this.#open(node.finalizer.start + 1, ` ${activation}.caught();`);
        break;
    }
  }

  #visitYield(node: Syntax): void {
    const { activation } = this.#names;
    const afterWord = node.start + "yield".length;
    this.#open(node.start, node.delegate === true ? `${activation}.back(` : `${activation}.resumed(`);
    if (!isSyntax(node.argument)) {
      this.#close(afterWord, ` ${activation}.yielded())`);
    } else if (node.delegate !== true) {
      this.#open(afterWord, ` ${activation}.yielded(`);
      this.#close(node.end, "))");
    } else {
      this.#wait();
      this.#open(this.#code.indexOf("*", afterWord) + 1, ` ${activation}.all(`);
      this.#close(node.end, "))");
    }
  }

  #visitForAwait(node: Syntax): void {
    const { activation } = this.#names;
    const [right, body] = [node.right as Syntax, node.body as Syntax];
    this.#wait();
    this.#encloseLoop(node, node);
    this.#open(right.start, `${activation}.each(`);
    this.#close(right.end, ")");
    this.#open(body.start, `{ ${activation}.caught(); `);
    // Goes before the text that encloses the loop.
    this.#scope?.insertions.push({ at: body.end, text: " }", rank: -this.#depth - 1 });
  }

  /** Restores the context after a loop, which may have waited for its iterator at its end. A label stays on its loop. */
  #encloseLoop(statement: Syntax, loop: Syntax): void {
    if (this.#labelled.has(loop)) return;
    this.#labelled.add(loop);
    this.#open(statement.start, "{ ");
    this.#close(statement.end, ` ${this.#names.activation}.caught(); }`);
  }
}

const PARSER_OPTIONS: Options = { ecmaVersion: "latest", sourceType: "script", preserveParens: true };

/** Returns the script unchanged if it never awaits, or if its syntax is newer than the parser. */
export async function keepContext(script: MappedScript, names: ContextNames): Promise<MappedScript> {
  // Imported lazily, because few bundles need it.
  const { parse } = await import("acorn");
  const writer = new ContextWriter(script.code, names);
  let program: Syntax;
  try {
    program = parse(script.code, PARSER_OPTIONS) as unknown as Syntax;
    writer.visit(program);
  } catch {
    // Syntax that is newer than the parser, or nested too deeply for it.
    return script;
  }
  if (writer.insertions.length === 0) return script;
  const declaration = ` const ${names.activationClass} = ${names.source};`;
  return insertText(script, [{ at: startOf(bundleBody(program)), text: declaration, rank: 0 }, ...writer.insertions]);
}
