// Shim for qs in the package url, which uses only features of Node's querystring.
import { querystring } from "./querystring.ts";

export const { parse, stringify } = querystring;
