// Stands in for tr46 in the URL chunk: an ASCII domain needs no mapping tables (UTS #46: its characters map to themselves, lower
// case), so the chunk with them is evaluated only for the others.
interface IdnaOptions {
  readonly useSTD3ASCIIRules?: boolean;
  readonly verifyDNSLength?: boolean;
  readonly checkHyphens?: boolean;
}
interface Idna {
  toASCII(domain: string, options: IdnaOptions): string | null;
}
// A chunk of its own: evaluated at the first call.
declare function require(name: "./idna.ts"): Idna;

const ASCII = /^[\0-\x7f]*$/;
const PUNYCODE_LABEL = /(?:^|\.)xn--/i;

export function toASCII(domain: string, options: IdnaOptions): string | null {
  const strict = options.useSTD3ASCIIRules || options.verifyDNSLength || options.checkHyphens;
  if (!strict && ASCII.test(domain) && !PUNYCODE_LABEL.test(domain)) return domain.toLowerCase();
  return require("./idna.ts").toASCII(domain, options);
}
