// Shim for tr46 in the URL module. An ASCII domain needs no mapping tables (UTS #46 maps its characters to their lower case), so the module
// with the tables is loaded for other domains only.
interface IdnaOptions {
  readonly useSTD3ASCIIRules?: boolean;
  readonly verifyDNSLength?: boolean;
  readonly checkHyphens?: boolean;
}
interface Idna {
  toASCII(domain: string, options: IdnaOptions): string | null;
}
// A platform module of its own, evaluated at the first call.
declare function require(name: "./idna.ts"): Idna;

const ASCII = /^[\0-\x7f]*$/;
const PUNYCODE_LABEL = /(?:^|\.)xn--/i;

export function toASCII(domain: string, options: IdnaOptions): string | null {
  const strict = options.useSTD3ASCIIRules || options.verifyDNSLength || options.checkHyphens;
  if (!strict && ASCII.test(domain) && !PUNYCODE_LABEL.test(domain)) return domain.toLowerCase();
  return require("./idna.ts").toASCII(domain, options);
}
