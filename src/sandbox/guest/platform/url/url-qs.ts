// Shim for qs in the package url, which uses only features of Node's querystring.
import { querystring } from "./querystring.ts";

export const { parse } = querystring;
/** The package passes options of qs in the place of the separator. */
export const stringify = (values: unknown): string => querystring.stringify(values);
