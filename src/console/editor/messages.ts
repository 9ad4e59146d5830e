// Messages between the page and the worker that checks code.
import type { ToolFacts } from "./granted-types.ts";

export type EditorRequest =
  | { readonly kind: "diagnostics" }
  | { readonly kind: "completions"; readonly position: number; readonly isExplicit: boolean }
  | { readonly kind: "completion"; readonly position: number; readonly label: string }
  | { readonly kind: "describe"; readonly position: number };

export interface EditorCheckRequest {
  readonly id: number;
  readonly request: EditorRequest;
  /** The author's text that the request is about. */
  readonly text: string;
  readonly facts: ToolFacts;
}
export type CheckResponse =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string };
