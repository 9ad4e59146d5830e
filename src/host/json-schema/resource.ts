// A part of a schema document with its own `$id`, or the whole document.
import type { Schema, SchemaObject } from "./schema-copy.ts";

export interface Resource {
  /** Absolute, without a fragment. */
  readonly uri: string;
  readonly root: Schema;
  readonly anchors: Map<string, SchemaObject>;
  readonly dynamicAnchors: Map<string, SchemaObject>;
}

/** The name under which 2019-09's `$recursiveAnchor: true` stands among the dynamic anchors; no anchor can be empty. */
export const RECURSIVE_ANCHOR = "";
