// An editor for code. It is loaded on demand, and lives in a shadow root, where its style sheets need no exception of the page's policy.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface CodeEditorProps {
  readonly label: string;
  readonly value: string;
  readonly onChange?: ((value: string) => void) | undefined;
  readonly language: "typescript" | "json";
}

export function CodeEditor({ label, value, onChange, language }: CodeEditorProps): JSX.Element {
  const host = useRef<HTMLDivElement>(null);
  const change = useRef(onChange);
  change.current = onChange;
  const initial = useRef(value);
  useEffect(() => {
    let isOver = false;
    let dispose: (() => void) | undefined;
    void import("./open-editor.ts").then(({ openEditor }) => {
      const element = host.current;
      if (isOver || element === null) return;
      dispose = openEditor(element, {
        ...{ label, language, text: initial.current, isEditable: change.current !== undefined },
        onChange: (text) => change.current?.(text),
      });
    });
    return () => {
      isOver = true;
      dispose?.();
    };
  }, [label, language]);
  return <div ref={host} class="editor" />;
}
