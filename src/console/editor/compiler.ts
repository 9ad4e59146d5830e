// The type of the compiler's API. The editor uses TypeScript 6, because TypeScript 7 has no API in JavaScript.
import type TypeScript from "../../../.ci/typescript6/node_modules/typescript/lib/typescript.d.ts";

export type { TypeScript };
export type EditorCompiler = typeof TypeScript;
