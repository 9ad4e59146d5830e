// URLPattern (WHATWG): the polyfill of the standard's own editors.
export { URLPattern } from "urlpattern-polyfill/urlpattern";
