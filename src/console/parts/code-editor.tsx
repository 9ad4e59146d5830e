// An editor for code. It is loaded on demand, and lives in a shadow root, where its style sheets need no exception of the page's policy.
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { CheckedProblems } from "../editor/editor-types.ts";
import type { ToolFacts } from "../editor/granted-types.ts";
import type { CheckState } from "../editor/type-checker.ts";
import { ErrorBox } from "./controls.tsx";
import type { OpenEditor } from "./open-editor.ts";

interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  readonly onChange?: ((value: string) => void) | undefined;
  readonly language: "typescript" | "json" | "plain";
  /** What is known about the tool whose code this is: then it is checked while it is written. */
  readonly facts?: ToolFacts | undefined;
}

export function CodeEditor({ label, value, onChange, language, facts }: CodeEditorProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const editor = useRef<OpenEditor>(undefined);
  const change = useRef(onChange);
  change.current = onChange;
  const latestFacts = useRef(facts);
  latestFacts.current = facts;
  const initial = useRef(value);
  const [state, setState] = useState<CheckState>("loading");
  const [problems, setProblems] = useState<CheckedProblems>();
  const [isMissing, setMissing] = useState(false);
  const isTyped = facts !== undefined && language === "typescript";
  useEffect(() => {
    let isOver = false;
    const open = async (): Promise<void> => {
      const { openEditor } = await import("./open-editor.ts");
      const element = host.current;
      if (isOver || element === null) return;
      const known = latestFacts.current;
      editor.current = openEditor(element, {
        label,
        language,
        text: initial.current,
        isEditable: change.current !== undefined,
        onChange: (text) => change.current?.(text),
        types: isTyped && known !== undefined ? { facts: known, onState: setState, onChecked: setProblems } : undefined,
      });
    };
    open().catch(() => setMissing(true));
    return () => {
      isOver = true;
      editor.current?.close();
      editor.current = undefined;
    };
  }, [label, language, isTyped]);
  useEffect(() => {
    if (facts !== undefined) editor.current?.setFacts(facts);
  }, [facts]);
  if (isMissing) {
    // The connection was lost, or the server has another version of the console meanwhile.
    return <ErrorBox error={new Error("The editor could not be loaded. Reload the page to try again")} />;
  }
  return (
    <div>
      <div ref={host} class="editor" />
      {isTyped ? <CheckStatus state={state} problems={problems} /> : null}
    </div>
  );
}

const count = (number: number, one: string): string => `${number} ${one}${number === 1 ? "" : "s"}`;

/** Says what the checks have found. */
function CheckStatus(props: {
  readonly state: CheckState;
  readonly problems: CheckedProblems | undefined;
}): JSX.Element {
  const { state, problems } = props;
  const text =
    state === "stopped"
      ? "Checking took more than 10 s and was stopped. It starts again with your next change"
      : state === "failed"
        ? "The type checker could not be loaded. You can write and deploy without it; reload the page to try again"
        : problems === undefined
          ? "Loading the type checker…"
          : problems.errors + problems.notes === 0
            ? "No problems"
            : [
                problems.errors === 0 ? "" : count(problems.errors, "error"),
                problems.notes === 0 ? "" : count(problems.notes, "note"),
              ]
                .filter((part) => part !== "")
                .join(", ");
  const hasErrors = state === "ready" && (problems?.errors ?? 0) > 0;
  return (
    <p class="check-status row spread">
      <span role="status" class={hasErrors ? "bad-text" : "faint"}>
        {text}
      </span>
      <span class="faint">
        <kbd>Ctrl Space</kbd> completes, <kbd>F8</kbd> goes to the next problem
      </span>
    </p>
  );
}
