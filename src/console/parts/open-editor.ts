// Opens CodeMirror in a shadow root.
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup } from "codemirror";

/** In the colors of the theme, which all have enough contrast. */
const COLORS = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: "var(--violet)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--green)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--orange)" },
  { tag: [tags.comment, tags.meta], color: "var(--faint)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.definition(tags.variableName)], color: "var(--blue)" },
  { tag: [tags.typeName, tags.className, tags.propertyName], color: "var(--teal)" },
]);

export interface EditorOptions {
  readonly label: string;
  readonly text: string;
  readonly language: "typescript" | "json";
  readonly isEditable: boolean;
  readonly onChange: (text: string) => void;
}

/** @returns a function that closes the editor */
export function openEditor(host: HTMLElement, options: EditorOptions): () => void {
  const { label, text, language, isEditable, onChange } = options;
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: text,
      extensions: [
        // Before the colors of the basic set-up, which are for light themes only.
        syntaxHighlighting(COLORS),
        basicSetup,
        language === "json" ? json() : javascript({ typescript: true }),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        EditorState.readOnly.of(!isEditable),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString());
        }),
        EditorView.theme({
          "&": { backgroundColor: "var(--panel)", color: "var(--text)", fontSize: "13px", maxHeight: "60vh" },
          ".cm-scroller": { fontFamily: "var(--mono)" },
          ".cm-content": { caretColor: "var(--text)" },
          ".cm-gutters": {
            backgroundColor: "var(--panel)",
            color: "var(--faint)",
            borderRight: "1px solid var(--line)",
          },
          ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
          "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
            backgroundColor: "var(--selection) !important",
          },
        }),
      ],
    }),
  });
  return () => view.destroy();
}
