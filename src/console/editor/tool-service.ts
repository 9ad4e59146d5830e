// Checks the code of one tool while it is written: diagnostics, completions and descriptions, by TypeScript's language service with the types of
// what the tool was granted. It runs in a worker of the browser, and in tests.
import { GRANTABLE_CAPABILITY_NAMES } from "../../sandbox/contract/capability-names.ts";
import { type CheckedText, toCheckedText } from "./checked-text.ts";
import type { EditorCompiler, TypeScript } from "./compiler.ts";
import { declareGranted, PART_OF, type ToolFacts } from "./granted-types.ts";

export interface EditorDiagnostic {
  readonly from: number;
  readonly to: number;
  readonly severity: "error" | "warning" | "info";
  readonly message: string;
}
export interface EditorCompletion {
  readonly label: string;
  readonly type: string;
  readonly sortText: string;
  /** Text that is inserted instead of the label, from this position on: a name in brackets replaces the dot before it. */
  readonly insert?: { readonly from: number; readonly text: string };
}
export interface EditorCompletions {
  readonly from: number;
  readonly options: readonly EditorCompletion[];
}
/** A type with its documentation, as text. */
export interface EditorDescription {
  readonly from: number;
  readonly to: number;
  readonly code: string;
  readonly documentation: string;
}

const TOOL = "/tool.ts";
const GRANTED = "/modules/glovebox/granted.d.ts";
const MODULES: { readonly [name: string]: string } = {
  "glovebox/tool": "/modules/glovebox/tool.d.ts",
  "glovebox/tool-context": "/modules/glovebox/tool-context.d.ts",
  "glovebox/tool-schema": "/modules/glovebox/tool-schema.d.ts",
  "glovebox/content": "/modules/glovebox/content.d.ts",
  "glovebox/granted": GRANTED,
  "@standard-schema/spec": "/modules/@standard-schema/spec.d.ts",
};
const MAX_DIAGNOSTICS = 100;
const MAX_COMPLETIONS = 1_000;
const MAX_MESSAGE = 2_000;
const MAX_LINES = 3;
const NO_FACTS: ToolFacts = { allowed: [], granted: undefined, tools: [] };
/** Messages about a name that does not exist, as a member and as a global. */
const UNKNOWN_MEMBER = [2339, 2551];
const UNKNOWN_NAME = [2304, 2552];
const UNKNOWN_MODULE = [2307, 2792, 2882];
/** Kinds of names, as the editor calls them. */
const SCRIPT_KINDS: { readonly [kind: string]: string } = {
  method: "method",
  property: "property",
  function: "function",
  "local function": "function",
  var: "variable",
  let: "variable",
  const: "constant",
  "local var": "variable",
  parameter: "variable",
  class: "class",
  interface: "interface",
  type: "type",
  enum: "enum",
  module: "namespace",
  keyword: "keyword",
};

export class ToolService {
  readonly #ts: EditorCompiler;
  readonly #libraries: { readonly [path: string]: string };
  readonly #service: TypeScript.LanguageService;
  readonly #texts = new Map<string, { readonly text: string; readonly version: number }>();
  #facts: ToolFacts = NO_FACTS;
  #author = "";
  #checked: CheckedText;

  constructor(ts: EditorCompiler, libraries: { readonly [path: string]: string }) {
    this.#ts = ts;
    this.#libraries = libraries;
    this.#checked = toCheckedText(ts, "");
    this.#service = ts.createLanguageService(this.#createHost(), ts.createDocumentRegistry());
    this.update("", NO_FACTS);
  }

  /** Sets the author's text, and what is known about the tool. */
  update(author: string, facts: ToolFacts): void {
    this.#author = author;
    this.#facts = facts;
    this.#checked = toCheckedText(this.#ts, author);
    const { text, requested, secrets } = this.#checked;
    this.#setText(TOOL, text);
    this.#setText(
      GRANTED,
      declareGranted(
        requested.map(({ name }) => name),
        secrets,
        facts,
      ),
    );
  }

  diagnostics(): readonly EditorDiagnostic[] {
    const found = [
      ...this.#service.getSyntacticDiagnostics(TOOL),
      ...this.#service.getSemanticDiagnostics(TOOL),
      ...this.#service
        .getSuggestionDiagnostics(TOOL)
        .filter(({ reportsDeprecated }) => reportsDeprecated !== undefined),
    ];
    const own = found.slice(0, MAX_DIAGNOSTICS).map((one) => this.#toDiagnostic(one));
    return [...this.#checkCapabilities(), ...own].toSorted((one, other) => one.from - other.from);
  }

  /** @param isExplicit whether the author asked for completions */
  completions(position: number, isExplicit: boolean): EditorCompletions | undefined {
    const word = /[\w$]*$/.exec(this.#author.slice(0, position))?.[0] ?? "";
    const from = position - word.length;
    const isMember = /[.?"'/]$/.test(this.#author.slice(0, from));
    if (word === "" && !isMember && !isExplicit) return undefined;
    const found = this.#service.getCompletionsAtPosition(TOOL, this.#checked.toChecked(position), {
      includeCompletionsForModuleExports: false,
      includeCompletionsWithInsertText: true,
    });
    if (found === undefined) return undefined;
    const options = found.entries
      .filter(({ name, kind }) => name.toLowerCase().includes(word.slice(0, 1).toLowerCase()) && kind !== "warning")
      .slice(0, MAX_COMPLETIONS)
      .map((entry) => this.#toCompletion(entry, from));
    return { from, options };
  }

  /** Describes a completion that {@link completions} has listed for this position. */
  describeCompletion(position: number, label: string): EditorDescription | undefined {
    const at = this.#checked.toChecked(position);
    const found = this.#service.getCompletionEntryDetails(TOOL, at, label, undefined, undefined, undefined, undefined);
    return found === undefined ? undefined : { from: position, to: position, ...this.#toTexts(found) };
  }

  /** Describes what is at a position. */
  describe(position: number): EditorDescription | undefined {
    const found = this.#service.getQuickInfoAtPosition(TOOL, this.#checked.toChecked(position));
    if (found === undefined) return undefined;
    const { start, length } = found.textSpan;
    return { ...this.#toRange(start, length), ...this.#toTexts(found) };
  }

  #toCompletion(
    { name, kind, sortText, insertText, replacementSpan }: TypeScript.CompletionEntry,
    from: number,
  ): EditorCompletion {
    const own = { label: name, type: SCRIPT_KINDS[kind] ?? "text", sortText };
    if (insertText === undefined || insertText === name) return own;
    const start = replacementSpan === undefined ? from : this.#checked.toAuthor(replacementSpan.start);
    return { ...own, insert: { from: start, text: insertText } };
  }

  #toTexts(found: {
    readonly displayParts?: TypeScript.SymbolDisplayPart[] | undefined;
    readonly documentation?: TypeScript.SymbolDisplayPart[] | undefined;
  }): { readonly code: string; readonly documentation: string } {
    const toText = (parts: TypeScript.SymbolDisplayPart[] | undefined): string =>
      this.#ts.displayPartsToString(parts).slice(0, 4_000);
    return { code: toText(found.displayParts), documentation: toText(found.documentation) };
  }

  #toRange(start: number, length: number): { readonly from: number; readonly to: number } {
    const end = this.#author.length;
    const from = Math.min(end, this.#checked.toAuthor(start));
    return { from, to: Math.min(end, Math.max(from, this.#checked.toAuthor(start + length))) };
  }

  #toDiagnostic(diagnostic: TypeScript.Diagnostic): EditorDiagnostic {
    const { start = 0, length = 0, category, code } = diagnostic;
    const range = this.#toRange(start, length);
    const { DiagnosticCategory } = this.#ts;
    const lines = this.#ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n").split("\n");
    // Of a long chain of reasons, the last ones name the author's own types.
    const message = (lines.length > MAX_LINES ? lines.slice(-2) : lines).map((line) => line.trim()).join("\n");
    return {
      ...range,
      severity:
        category === DiagnosticCategory.Error ? "error" : category === DiagnosticCategory.Warning ? "warning" : "info",
      message: this.#explain(code, this.#author.slice(range.from, range.to), message.slice(0, MAX_MESSAGE)),
    };
  }

  /** Says what to do about a name that the tool was not granted. */
  #explain(code: number, name: string, message: string): string {
    const capability = PART_OF[name] ?? name;
    const isCapability =
      (GRANTABLE_CAPABILITY_NAMES as readonly string[]).includes(capability) ||
      this.#facts.allowed.includes(capability);
    if ([...UNKNOWN_MEMBER, ...UNKNOWN_NAME].includes(code) && isCapability) {
      const isOwn = UNKNOWN_NAME.includes(code) ? name : `ctx.${name}`;
      return `${isOwn} is missing: this tool has no grant for "${capability}". Request it: export const capabilities = { ${capability}: ${capability === "fetch" ? '["api.example.com"]' : "{}"} };`;
    }
    if (UNKNOWN_MEMBER.includes(code) && message.includes("'TenantTools'"))
      return `There is no live tool "${name}" in this tenant. Deploy it first, or correct the name`;
    if (UNKNOWN_MODULE.includes(code))
      return `${message.split("\n")[0]} The page deploys single files: npx glovebox deploy PATH bundles a tool with its packages`;
    return message;
  }

  #checkCapabilities(): readonly EditorDiagnostic[] {
    const { allowed, granted } = this.#facts;
    return this.#checked.requested.flatMap(({ name, from, to }): EditorDiagnostic[] => {
      if (name === "log") return [];
      if (!allowed.includes(name)) {
        const message = `The policy of this tenant does not allow the capability "${name}" (policy.capabilities)`;
        return [{ from, to, severity: "error", message }];
      }
      if (granted === undefined || granted.includes(name)) return [];
      const message = `The live version does not have "${name}": this version waits for approval when it is deployed`;
      return [{ from, to, severity: "info", message }];
    });
  }

  #setText(path: string, text: string): void {
    const before = this.#texts.get(path);
    if (before?.text !== text) this.#texts.set(path, { text, version: (before?.version ?? 0) + 1 });
  }

  readonly #read = (path: string): string | undefined => this.#texts.get(path)?.text ?? this.#libraries[path];

  #roots(): string[] {
    const hasNetwork =
      this.#checked.requested.some(({ name }) => name === "fetch") && this.#facts.allowed.includes("fetch");
    return [TOOL, "/platform.d.ts", "/ambient.d.ts", ...(hasNetwork ? ["/network.d.ts"] : [])];
  }

  #createHost(): TypeScript.LanguageServiceHost {
    const ts = this.#ts;
    const options: TypeScript.CompilerOptions = {
      target: ts.ScriptTarget.ESNext,
      module: ts.ModuleKind.ESNext,
      lib: ["lib.esnext.d.ts"],
      types: [],
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      moduleDetection: ts.ModuleDetectionKind.Force,
      // Tools are often plain JavaScript, whose helpers have no types.
      strict: true,
      noImplicitAny: false,
      noEmit: true,
      skipLibCheck: true,
      allowJs: true,
    };
    return {
      getCompilationSettings: () => options,
      getScriptFileNames: () => this.#roots(),
      getScriptVersion: (path) => String(this.#texts.get(path)?.version ?? 0),
      getScriptSnapshot: (path) => {
        const text = this.#read(path);
        return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text);
      },
      getCurrentDirectory: () => "/",
      getDefaultLibFileName: () => "/lib/lib.esnext.d.ts",
      fileExists: (path) => this.#read(path) !== undefined,
      readFile: this.#read,
      resolveModuleNameLiterals: (literals) =>
        literals.map(({ text }) => {
          const resolvedFileName = Object.hasOwn(MODULES, text) ? MODULES[text] : undefined;
          return {
            resolvedModule:
              resolvedFileName === undefined ? undefined : { resolvedFileName, extension: ts.Extension.Dts },
          };
        }),
    };
  }
}
