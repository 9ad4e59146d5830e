// Finds the variables of a module and the values that are assigned to them, for location-values.ts.
import { childrenOf, collectNames, FUNCTIONS, isSyntax, type Syntax } from "../transforms/syntax.ts";

interface Variable {
  readonly values: Syntax[];
  /** The module uses the name and does not declare it. */
  isGlobal?: boolean;
  /** Name of the export of another module that this variable holds. */
  imported?: string;
}

interface Scope {
  readonly parent: Scope | undefined;
  readonly isFunction: boolean;
  readonly variables: Map<string, Variable>;
}

const BLOCKS: ReadonlySet<string> = new Set([
  "BlockStatement",
  "ForStatement",
  "ForInStatement",
  "ForOfStatement",
  "SwitchStatement",
  "CatchClause",
  "StaticBlock",
]);

function declare(scope: Scope, name: string): Variable {
  const known = scope.variables.get(name);
  if (known !== undefined) return known;
  const variable: Variable = { values: [] };
  scope.variables.set(name, variable);
  return variable;
}

function declarePattern(scope: Scope, pattern: Syntax): void {
  const names = new Set<string>();
  collectNames(pattern, names);
  for (const name of names) declare(scope, name);
}

const functionScope = (scope: Scope): Scope =>
  scope.isFunction || scope.parent === undefined ? scope : functionScope(scope.parent);

export const nameOf = (node: unknown): string | undefined =>
  isSyntax(node) && node.type === "Identifier" ? String(node.name) : undefined;

/** Returns the name of a property of an object or a class, or of a member access. */
export function keyOf(key: unknown, isComputed: unknown): string | undefined {
  if (isComputed !== true && nameOf(key) !== undefined) return nameOf(key);
  return isSyntax(key) && key.type === "Literal" ? String(key.value) : undefined;
}

/** Collects a module's variables and the values that are assigned to them, and to properties by their name. */
export class ModuleNames {
  readonly properties = new Map<string, Syntax[]>();
  readonly #scopes = new Map<Syntax, Scope>();
  readonly #assigned: [target: Syntax, value: Syntax][] = [];

  constructor(program: Syntax) {
    this.#visit(program, { parent: undefined, isFunction: true, variables: new Map() });
    for (const [target, value] of this.#assigned) this.find(target)?.values.push(value);
  }

  /** Returns the variable that an identifier means. */
  find(identifier: Syntax): Variable | undefined {
    const name = String(identifier.name);
    for (let scope = this.#scopes.get(identifier); scope !== undefined; scope = scope.parent) {
      const variable = scope.variables.get(name);
      if (variable !== undefined) return variable;
      if (scope.parent === undefined) {
        const global = declare(scope, name);
        global.isGlobal = true;
        return global;
      }
    }
    return undefined;
  }

  /** Tells whether the module declares the variable that an identifier means, or assigns a value to it. */
  isDeclared(identifier: Syntax): boolean {
    const variable = this.find(identifier);
    return variable?.isGlobal !== true || variable.values.length > 0;
  }

  #visit(node: Syntax, outer: Scope): void {
    const isFunction = FUNCTIONS.has(node.type);
    if (node.type === "FunctionDeclaration" || node.type === "ClassDeclaration") this.#declareId(node, outer);
    const scope: Scope =
      isFunction || BLOCKS.has(node.type) ? { parent: outer, isFunction, variables: new Map() } : outer;
    if (isFunction) for (const parameter of node.params as readonly Syntax[]) declarePattern(scope, parameter);
    if (node.type === "CatchClause" && isSyntax(node.param)) declarePattern(scope, node.param);
    this.#collect(node, scope);
    for (const child of childrenOf(node)) this.#visit(child, scope);
  }

  #declareId({ id }: Syntax, scope: Scope): void {
    const name = nameOf(id);
    if (name !== undefined) declare(scope, name);
  }

  #collect(node: Syntax, scope: Scope): void {
    switch (node.type) {
      case "Identifier":
        this.#scopes.set(node, scope);
        break;
      case "ImportSpecifier":
        declare(scope, nameOf(node.local) ?? "").imported = keyOf(node.imported, false) ?? "";
        break;
      case "VariableDeclaration":
        for (const { id, init } of node.declarations as readonly Syntax[])
          this.#assign(id as Syntax, init, node.kind === "var" ? functionScope(scope) : scope);
        break;
      case "AssignmentPattern":
        this.#assign(node.left as Syntax, node.right);
        break;
      case "AssignmentExpression":
        this.#assign(node.left as Syntax, node.right);
        break;
      case "Property":
      case "PropertyDefinition":
        this.#assignProperty(keyOf(node.key, node.computed), node.value);
    }
  }

  /** @param scope where the target is declared, if it is a declaration */
  #assign(target: Syntax, value: unknown, scope?: Scope): void {
    if (scope !== undefined) declarePattern(scope, target);
    if (target.type === "MemberExpression") this.#assignProperty(keyOf(target.property, target.computed), value);
    if (scope !== undefined && target.type === "ObjectPattern") this.#nameParts(target, scope);
    if (target.type === "Identifier" && isSyntax(value)) this.#assigned.push([target, value]);
  }

  /** Keeps the names of what `const { join: combine } = require("path")` declares. */
  #nameParts(pattern: Syntax, scope: Scope): void {
    for (const property of pattern.properties as readonly Syntax[]) {
      const local = nameOf(property.value);
      const key = keyOf(property.key, property.computed);
      if (local !== undefined && key !== undefined) declare(scope, local).imported = key;
    }
  }

  #assignProperty(key: string | undefined, value: unknown): void {
    if (key === undefined || !isSyntax(value)) return;
    const values = this.properties.get(key) ?? [];
    values.push(value);
    this.properties.set(key, values);
  }
}
