// Connects the editor to the checks: marks of errors, completions, and descriptions of what is under the pointer.
import {
  autocompletion,
  type Completion,
  type CompletionContext,
  type CompletionResult,
  completionKeymap,
} from "@codemirror/autocomplete";
import { type Diagnostic, linter, lintGutter } from "@codemirror/lint";
import { type Extension, StateEffect } from "@codemirror/state";
import { type EditorView, hoverTooltip, keymap } from "@codemirror/view";
import type { EditorCompletion, EditorDescription } from "./tool-service.ts";
import type { EditorTypeChecker } from "./type-checker.ts";

const DELAY_MS = 350;

/** Checks the text again, because the types have changed. */
export const typesChanged = StateEffect.define<null>();

export interface CheckedProblems {
  readonly errors: number;
  readonly notes: number;
}

function element(tag: string, className: string, text: string): HTMLElement {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

function render({ code, documentation }: EditorDescription): HTMLElement {
  const box = element("div", "cm-description", "");
  box.append(element("code", "", code));
  if (documentation !== "") box.append(element("p", "", documentation));
  return box;
}

function toCompletion(
  found: EditorCompletion,
  describe: (label: string) => Promise<EditorDescription | undefined>,
): Completion {
  const { label, type, sortText, insert } = found;
  return {
    label,
    type,
    sortText,
    info: async () => {
      const description = await describe(label);
      return description === undefined ? null : render(description);
    },
    ...(insert === undefined
      ? {}
      : {
          apply: (view: EditorView, _completion: Completion, _from: number, to: number) =>
            view.dispatch({
              changes: { from: insert.from, to, insert: insert.text },
              selection: { anchor: insert.from + insert.text.length },
              userEvent: "input.complete",
            }),
        }),
  };
}

/** @param onChecked called after each check of the text */
export function typeExtensions(checker: EditorTypeChecker, onChecked: (problems: CheckedProblems) => void): Extension {
  const lint = async (view: EditorView): Promise<readonly Diagnostic[]> => {
    const found = await checker.diagnostics(view.state.doc.toString());
    if (found === undefined) return [];
    const errors = found.filter(({ severity }) => severity === "error").length;
    onChecked({ errors, notes: found.length - errors });
    const end = view.state.doc.length;
    return found.map((one) => ({ ...one, from: Math.min(one.from, end), to: Math.min(one.to, end) }));
  };
  const complete = async (context: CompletionContext): Promise<CompletionResult | null> => {
    const text = context.state.doc.toString();
    const found = await checker.completions(text, context.pos, context.explicit);
    if (found === undefined || context.aborted) return null;
    const describe = (label: string): Promise<EditorDescription | undefined> =>
      checker.describeCompletion(text, context.pos, label);
    return { from: found.from, options: found.options.map((one) => toCompletion(one, describe)), validFor: /^[\w$]*$/ };
  };
  return [
    linter(lint, {
      delay: DELAY_MS,
      needsRefresh: ({ transactions }) =>
        transactions.some(({ effects }) => effects.some((one) => one.is(typesChanged))),
    }),
    lintGutter(),
    autocompletion({ override: [complete] }),
    keymap.of(completionKeymap),
    hoverTooltip(async (view, position) => {
      const found = await checker.describe(view.state.doc.toString(), position);
      if (found === undefined || found.code === "") return null;
      return { pos: found.from, end: found.to, above: true, create: () => ({ dom: render(found) }) };
    }),
  ];
}
