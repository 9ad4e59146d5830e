// Opens CodeMirror in a shadow root.
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState, type Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup } from "codemirror";
import { type CheckedProblems, typeExtensions, typesChanged } from "../editor/editor-types.ts";
import type { ToolFacts } from "../editor/granted-types.ts";
import { type CheckState, EditorTypeChecker } from "../editor/type-checker.ts";

/** In the colors of the theme, which all have enough contrast. */
const COLORS = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--violet)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--green)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--orange)" },
  { tag: [tags.comment, tags.meta], color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName)], color: "var(--blue)" },
  { tag: [tags.typeName, tags.className, tags.propertyName], color: "var(--teal)" },
]);
const THEME = EditorView.theme({
  "&": { backgroundColor: "var(--panel)", color: "var(--text)", fontSize: "13px", maxHeight: "60vh" },
  ".cm-scroller": { fontFamily: "var(--mono)", minHeight: "240px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--faint)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--selection) !important",
  },
  ".cm-tooltip": {
    backgroundColor: "var(--panel)",
    color: "var(--text)",
    border: "1px solid var(--line)",
    borderRadius: "6px",
    boxShadow: "0 4px 16px #0003",
    maxWidth: "min(640px, 90vw)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
    backgroundColor: "var(--selection)",
    color: "var(--text)",
  },
  ".cm-tooltip.cm-completionInfo": { padding: "0" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-description": { padding: "6px 10px", overflow: "auto", maxHeight: "240px" },
  ".cm-description code": { font: "12.5px / 1.5 var(--mono)", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-description p": { margin: "4px 0 0", color: "var(--faint)" },
  ".cm-diagnostic": { padding: "4px 10px", whiteSpace: "pre-wrap", font: "12.5px / 1.5 system-ui, sans-serif" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--red)" },
  ".cm-diagnostic-info": { borderLeft: "4px solid var(--blue)" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panel.cm-panel-lint ul [aria-selected]": { backgroundColor: "var(--selection)", color: "var(--text)" },
});

/**
 * Replaces selected text without the browser: Chromium keeps the looks of what it replaces in a style attribute, which the content policy
 * blocks and reports.
 */
const REPLACE_SELECTION = EditorView.domEventHandlers({
  beforeinput({ inputType, data }, view) {
    const { state } = view;
    const { from, to, empty } = state.selection.main;
    const isSimple = inputType === "insertText" && data !== null && !empty && state.selection.ranges.length === 1;
    if (!isSimple || view.composing || state.readOnly) return false;
    const insert = () => state.update(state.replaceSelection(data), { userEvent: "input.type", scrollIntoView: true });
    // Others may do more with what is typed: close a bracket, for example.
    const isHandled = state.facet(EditorView.inputHandler).some((handle) => handle(view, from, to, data, insert));
    if (!isHandled) view.dispatch(insert());
    return true;
  },
});

/** Types for the editor of a tool. */
export interface EditorTypes {
  readonly facts: ToolFacts;
  readonly onState: (state: CheckState) => void;
  readonly onChecked: (problems: CheckedProblems) => void;
}

export interface EditorOptions {
  readonly label: string;
  readonly text: string;
  readonly language: "typescript" | "json" | "plain";
  readonly isEditable: boolean;
  readonly onChange: (text: string) => void;
  readonly types?: EditorTypes | undefined;
}

export interface OpenEditor {
  readonly setFacts: (facts: ToolFacts) => void;
  readonly close: () => void;
}

const languageOf = (language: EditorOptions["language"]): Extension =>
  language === "json" ? json() : language === "typescript" ? javascript({ typescript: true }) : [];

export function openEditor(host: HTMLElement, options: EditorOptions): OpenEditor {
  const { label, text, language, isEditable, onChange, types } = options;
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const checker = types === undefined ? undefined : new EditorTypeChecker(types.onState);
  if (checker !== undefined && types !== undefined) checker.facts = types.facts;
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        // Before the colors of the basic set-up, which are for light themes only.
        syntaxHighlighting(COLORS),
        checker === undefined || types === undefined ? [] : typeExtensions(checker, types.onChecked),
        REPLACE_SELECTION,
        basicSetup,
        languageOf(language),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        EditorState.readOnly.of(!isEditable),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString());
        }),
        THEME,
      ],
    }),
  });
  return {
    setFacts: (facts) => {
      if (checker === undefined) return;
      checker.facts = facts;
      view.dispatch({ effects: typesChanged.of(null) });
    },
    close: () => {
      checker?.dispose();
      view.destroy();
    },
  };
}
