// URL and URLSearchParams: whatwg-url, with stand-ins for what it needs of tr46 and the legacy encodings (see sandbox-artifacts.ts).
export { URL, URLSearchParams } from "whatwg-url";
