// URLPattern (WHATWG): the polyfill written by the editors of the standard.
export { URLPattern } from "urlpattern-polyfill/urlpattern";
