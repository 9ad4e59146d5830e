// Stands in for qs in the package url, which only takes what Node's querystring does.
import { querystring } from "./querystring.ts";

export const { parse, stringify } = querystring;
