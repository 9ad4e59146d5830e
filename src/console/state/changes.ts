// Keeps a form from undoing what another operator has changed since the form was opened.
import { ApiError } from "glovebox/client";
import { formatJson } from "./format.ts";

/**
 * Compares what a form was made from with what is stored now. Returns the condition for saving the form: that it is still stored then.
 * @param what names it in the message: `The schedule`
 * @param shown what the form was made from; undefined for something new
 * @param current what is stored; undefined if there is none
 * @param names the members that the form replaces
 * @throws {Error} if one of them differs, or one of both does not exist
 */
export function unchanged<Value extends object>(
  what: string,
  shown: Value | undefined,
  current: (Value & { readonly etag: string | null }) | undefined,
  names: readonly (keyof Value)[],
): { readonly ifMatch?: string } {
  const textOf = (value: Value | undefined): string =>
    value === undefined ? "" : formatJson(names.map((name) => value[name] ?? null));
  if (textOf(shown) === textOf(current)) return typeof current?.etag === "string" ? { ifMatch: current.etag } : {};
  throw changedSince(what);
}

/** Returns whether the server has answered with this code. */
export const isAnswer = (thrown: unknown, code: string): boolean => thrown instanceof ApiError && thrown.code === code;

/** Returns the error for a form that another change has made out of date. @param what names what has changed: `The schedule` */
export const changedSince = (what: string): Error =>
  new Error(
    `${what} has been changed since this form was opened, so nothing was saved. Close the form, look at what is stored now, and make your change again`,
  );

/** Returns the error for a new thing whose name is taken. @param action what the page offers for the existing one */
export const existsAlready = (kind: string, name: string, action: string): Error =>
  new Error(`There is a ${kind} with this ${name}, so nothing was saved. Close the form, and ${action} that ${kind}`);
