// Helpers for acorn's syntax trees: the children of a node, and the names that it declares.
import type { Node } from "acorn";

export type Syntax = Node & { readonly [key: string]: unknown };

export const isSyntax = (value: unknown): value is Syntax =>
  typeof value === "object" && value !== null && typeof (value as { type?: unknown }).type === "string";

export const FUNCTIONS: ReadonlySet<string> = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
]);

export function childrenOf(node: Syntax): readonly Syntax[] {
  return Object.values(node).flatMap((value) =>
    Array.isArray(value) ? value.filter(isSyntax) : isSyntax(value) ? [value] : [],
  );
}

export function collectNames(pattern: Syntax, names: Set<string>): void {
  if (pattern.type === "Identifier") names.add(String(pattern.name));
  else for (const child of childrenOf(pattern)) collectNames(child, names);
}

/** Collects the `var` names of this function, including those in its blocks. */
export function collectVars(node: Syntax, names: Set<string>): void {
  for (const child of childrenOf(node)) {
    if (FUNCTIONS.has(child.type) || child.type.startsWith("Class")) continue;
    if (child.type === "VariableDeclaration" && child.kind === "var")
      for (const { id } of child.declarations as readonly Syntax[]) collectNames(id as Syntax, names);
    collectVars(child, names);
  }
}
