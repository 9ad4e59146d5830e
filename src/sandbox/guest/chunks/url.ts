// URL and URLSearchParams: whatwg-url, with stand-ins for what it needs of tr46 and the legacy encodings (see sandbox-artifacts.ts).
import { URL, URLSearchParams } from "whatwg-url";

// The build renames what is called as a global is.
Object.defineProperty(URL, "name", { value: "URL" });
Object.defineProperty(URLSearchParams, "name", { value: "URLSearchParams" });

export { URL, URLSearchParams };
