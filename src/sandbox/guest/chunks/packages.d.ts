// Packages that chunks are bundled with and that bring no types.
declare module "tr46" {
  interface Options {
    readonly useSTD3ASCIIRules?: boolean;
    readonly verifyDNSLength?: boolean;
    readonly checkHyphens?: boolean;
  }
  export function toASCII(domain: string, options: Options): string | null;
}
