// The text that the compiler sees: the author's text with types at the places where the author wrote none. Positions are translated between both.
import type { EditorCompiler, TypeScript } from "./compiler.ts";

/** Text that is added at a position of the author's text. */
interface Insertion {
  readonly at: number;
  readonly text: string;
}

/** Where a tool lists its capabilities. */
export interface RequestedCapability {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

export interface CheckedText {
  readonly text: string;
  readonly requested: readonly RequestedCapability[];
  /** Names of the secrets that the tool lists; undefined if they are not literals. */
  readonly secrets: readonly string[] | undefined;
  readonly toChecked: (position: number) => number;
  readonly toAuthor: (position: number) => number;
}

const SCHEMAS = ["inputSchema", "outputSchema"];

const unwrap = (ts: EditorCompiler, node: TypeScript.Expression): TypeScript.Expression =>
  ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)
    ? unwrap(ts, node.expression)
    : node;

function hasModifiers(
  ts: EditorCompiler,
  node: TypeScript.Statement,
  ...kinds: readonly TypeScript.SyntaxKind[]
): boolean {
  const own = ts.canHaveModifiers(node) ? (ts.getModifiers(node) ?? []) : [];
  return kinds.every((kind) => own.some((modifier) => modifier.kind === kind));
}

function propertyOf(
  ts: EditorCompiler,
  object: TypeScript.Expression,
  name: string,
): TypeScript.Expression | undefined {
  if (!ts.isObjectLiteralExpression(object)) return undefined;
  const found = object.properties.find((property) => property.name?.getText().replaceAll(/["']/g, "") === name);
  return found !== undefined && ts.isPropertyAssignment(found) ? unwrap(ts, found.initializer) : undefined;
}

class Annotator {
  readonly #ts: EditorCompiler;
  readonly #file: TypeScript.SourceFile;
  readonly insertions: Insertion[] = [];
  capabilities: TypeScript.Expression | undefined;
  readonly #schemas = new Set<string>();

  constructor(ts: EditorCompiler, file: TypeScript.SourceFile) {
    this.#ts = ts;
    this.#file = file;
    for (const statement of file.statements) this.#readNamed(statement);
    for (const statement of file.statements) this.#readDefault(statement);
    this.insertions.sort((one, other) => one.at - other.at);
  }

  /** A schema that is a literal keeps its exact type, so that the input has one too. */
  #readNamed(statement: TypeScript.Statement): void {
    const ts = this.#ts;
    if (!ts.isVariableStatement(statement) || !hasModifiers(ts, statement, ts.SyntaxKind.ExportKeyword)) return;
    for (const { name, initializer, type } of statement.declarationList.declarations) {
      if (!ts.isIdentifier(name) || initializer === undefined) continue;
      if (name.text === "capabilities") this.capabilities = unwrap(ts, initializer);
      if (!SCHEMAS.includes(name.text)) continue;
      this.#schemas.add(name.text);
      if (type === undefined && ts.isObjectLiteralExpression(initializer))
        this.insertions.push({ at: initializer.end, text: " as const" });
    }
  }

  #readDefault(statement: TypeScript.Statement): void {
    const ts = this.#ts;
    const { DefaultKeyword, ExportKeyword } = ts.SyntaxKind;
    if (ts.isFunctionDeclaration(statement) && hasModifiers(ts, statement, ExportKeyword, DefaultKeyword)) {
      this.#annotateParameters(statement);
    } else if (ts.isExportAssignment(statement) && statement.isExportEquals !== true) {
      this.#readExpression(statement.expression);
    }
  }

  #readExpression(expression: TypeScript.Expression): void {
    const ts = this.#ts;
    if (ts.isArrowFunction(expression) || ts.isFunctionExpression(expression)) {
      this.#wrap(expression, "(", `) satisfies ${this.#functionType()}`);
      return;
    }
    const object = ts.isCallExpression(expression) ? expression.arguments[0] : expression;
    if (object !== undefined) this.capabilities ??= propertyOf(ts, unwrap(ts, object), "capabilities");
    if (ts.isObjectLiteralExpression(expression))
      this.#wrap(expression, '(null! as typeof import("glovebox/tool").defineTool)(', ")");
  }

  #functionType(): string {
    const [input, output] = SCHEMAS.map((name) => (this.#schemas.has(name) ? `typeof ${name}` : "undefined"));
    return `import("glovebox/tool").ToolFunction<${input}, ${output}>`;
  }

  #annotateParameters({ parameters }: TypeScript.FunctionDeclaration): void {
    for (const [index, { name, type }] of parameters.slice(0, 2).entries()) {
      if (type === undefined)
        this.insertions.push({ at: name.end, text: `: Parameters<${this.#functionType()}>[${index}]` });
    }
  }

  #wrap(node: TypeScript.Expression, before: string, after: string): void {
    this.insertions.push({ at: node.getStart(this.#file), text: before }, { at: node.end, text: after });
  }
}

function listSecrets(
  ts: EditorCompiler,
  capabilities: TypeScript.Expression | undefined,
): readonly string[] | undefined {
  const list = capabilities === undefined ? undefined : propertyOf(ts, capabilities, "secrets");
  if (list === undefined || !ts.isArrayLiteralExpression(list)) return undefined;
  const names = list.elements.map((element) => (ts.isStringLiteralLike(element) ? element.text : undefined));
  return names.includes(undefined) ? undefined : (names as string[]);
}

function listRequested(
  ts: EditorCompiler,
  capabilities: TypeScript.Expression | undefined,
): readonly RequestedCapability[] {
  if (capabilities === undefined || !ts.isObjectLiteralExpression(capabilities)) return [];
  return capabilities.properties.flatMap(({ name }): RequestedCapability[] =>
    name !== undefined && (ts.isIdentifier(name) || ts.isStringLiteralLike(name))
      ? [{ name: name.text, from: name.getStart(), to: name.end }]
      : [],
  );
}

/** Adds types to a tool. @param ts the compiler */
export function toCheckedText(ts: EditorCompiler, author: string): CheckedText {
  const file = ts.createSourceFile("tool.ts", author, ts.ScriptTarget.ESNext, true);
  const { insertions, capabilities } = new Annotator(ts, file);
  let text = "";
  let from = 0;
  for (const { at, text: added } of insertions) {
    text += author.slice(from, at) + added;
    from = at;
  }
  const lengthBefore = (isBefore: (insertion: Insertion, sum: number) => boolean): number => {
    let sum = 0;
    for (const insertion of insertions) {
      if (!isBefore(insertion, sum)) break;
      sum += insertion.text.length;
    }
    return sum;
  };
  return {
    text: text + author.slice(from),
    requested: listRequested(ts, capabilities),
    secrets: listSecrets(ts, capabilities),
    // A cursor at the place of an insertion is before it.
    toChecked: (position) => position + lengthBefore(({ at }) => at < position),
    toAuthor: (position) => {
      let sum = 0;
      for (const { at, text: added } of insertions) {
        if (at + sum >= position) break;
        // A position within added text is the place where it was added.
        if (at + sum + added.length > position) return at;
        sum += added.length;
      }
      return position - sum;
    },
  };
}
