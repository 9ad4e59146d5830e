// The entry of the URL chunk, bundled apart from the prelude: the build aliases tr46 and the legacy encodings (see sandbox-artifacts.ts).
import { URL, URLSearchParams } from "whatwg-url";

export { URL, URLSearchParams };
