// A part of a schema document with its own `$id`, or the whole document.
import type { Schema, SchemaObject } from "./schema-copy.ts";

export interface SchemaResource {
  /** Absolute, without a fragment. */
  readonly uri: string;
  readonly root: Schema;
  readonly anchors: Map<string, SchemaObject>;
  readonly dynamicAnchors: Map<string, SchemaObject>;
}

/** The name of 2019-09's `$recursiveAnchor: true` among the dynamic anchors. It cannot collide, since anchors are never empty. */
export const RECURSIVE_ANCHOR = "";
