// Stands in for tr46 in the URL chunk: an ASCII domain needs no mapping tables (UTS #46: its characters map to themselves, lower
// case), so the 240 KB of them are evaluated only for the others.
interface IdnaOptions {
  readonly useSTD3ASCIIRules?: boolean;
  readonly verifyDNSLength?: boolean;
  readonly checkHyphens?: boolean;
}
interface Idna {
  toASCII(domain: string, options: IdnaOptions): string | null;
}
// The bundler resolves this to the real package, as CommonJS, evaluated at the first call.
declare function require(name: "tr46-tables"): Idna;

const ASCII = /^[\0-\x7f]*$/;
const PUNYCODE_LABEL = /(?:^|\.)xn--/i;

export function toASCII(domain: string, options: IdnaOptions): string | null {
  const strict = options.useSTD3ASCIIRules || options.verifyDNSLength || options.checkHyphens;
  if (!strict && ASCII.test(domain) && !PUNYCODE_LABEL.test(domain)) return domain.toLowerCase();
  // biome-ignore lint/correctness/noUndeclaredDependencies lint/correctness/noUnresolvedImports: an alias of the build
  return require("tr46-tables").toASCII(domain, options);
}
