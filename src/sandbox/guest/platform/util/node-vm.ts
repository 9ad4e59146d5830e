// node:vm: scripts in the tool's own global scope, and in contexts (vm-contexts.ts).
import { callable } from "../shared/callable-classes.ts";
import { checkString } from "../shared/node-error.ts";
import { unsupportedMembers } from "../shared/unsupported-members.ts";
import { createContext, isContext, runInContext } from "./vm-contexts.ts";

const web = globalThis as unknown as {
  readonly eval: (source: string) => unknown;
  readonly Function: FunctionConstructor;
};
const NOT_HERE = "a tool cannot control the engine; use a script";

/** Evaluates a script in the global scope. Throws an EvalError if the host has turned dynamic code off. */
function runInThisContext(code: unknown): unknown {
  checkString(code, "code");
  return web.eval(code);
}

function runInNewContext(code: unknown, object: unknown = {}): unknown {
  return runInContext(code, createContext(object));
}

function compileFunction(code: unknown, params: unknown = []): unknown {
  checkString(code, "code");
  const names = params as readonly unknown[];
  for (const [index, name] of names.entries()) checkString(name, `params[${index}]`);
  return web.Function(...(names as readonly string[]), code);
}

/**
 * Throws the syntax error of a script. The body of a function accepts a few texts more, such as `return`, whose error is thrown when the script
 * runs. So are all where the host has turned dynamic code off.
 */
function checkSyntax(code: string): void {
  try {
    web.Function(code.replace(/^#!.*/, ""));
  } catch (error) {
    if (error instanceof SyntaxError) throw error;
  }
}

class Script {
  readonly #code: string;
  constructor(code: unknown) {
    this.#code = `${code as string}`;
    checkSyntax(this.#code);
  }
  runInThisContext(): unknown {
    return runInThisContext(this.#code);
  }
  runInContext(context: unknown): unknown {
    return runInContext(this.#code, context);
  }
  runInNewContext(object: unknown = {}): unknown {
    return runInContext(this.#code, createContext(object));
  }
}
Object.assign(Script.prototype, unsupportedMembers("vm.Script", NOT_HERE, "createCachedData"));

export const vm = {
  ...unsupportedMembers("vm", NOT_HERE, "SourceTextModule SyntheticModule measureMemory"),
  Script: callable(Script),
  createScript: (code: unknown): Script => new Script(code),
  compileFunction,
  createContext,
  isContext,
  runInContext,
  runInNewContext,
  runInThisContext,
  constants: {},
};
