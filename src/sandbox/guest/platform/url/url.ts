// URL and URLSearchParams: the classes of whatwg-url, with shims for parts of its dependencies (see src/bundler/artifacts/sandbox-artifacts.ts).

import { addPlatformType } from "../../platform-types.ts";
import { pickFields, showAs, showPairs } from "../fetch/fetch-inspect.ts";

interface Classes {
  readonly URL: typeof import("whatwg-url").URL;
  readonly URLSearchParams: typeof import("whatwg-url").URLSearchParams;
}
/** The package installs its classes on a global object. Here it installs them on a private object. */
interface Interface {
  install(target: object, names: readonly string[]): void;
}
declare function require(name: "whatwg-url/webidl2js-wrapper.js"): Readonly<Record<keyof Classes, Interface>>;

const target = { Array, Object, Promise, String, TypeError } as unknown as Classes;
const interfaces = require("whatwg-url/webidl2js-wrapper.js");
interfaces.URL.install(target, ["Worker"]);
interfaces.URLSearchParams.install(target, ["Worker"]);
export const { URL, URLSearchParams } = target;

/** Tells whether a value has the internal slots of an interface: its getter throws for other values. */
function isOf(prototype: object, getter: string): (value: unknown) => boolean {
  const read = Object.getOwnPropertyDescriptor(prototype, getter)?.get;
  return (value) => {
    try {
      read?.call(value);
      return read !== undefined;
    } catch {
      return false;
    }
  };
}

// The build adds numbers to classes with equal names.
for (const [name, made] of Object.entries({ URL, URLSearchParams })) {
  Object.defineProperty(made, "name", { value: name, configurable: true });
}
// Path of an import. The module is loaded at first use.
declare function require(file: "../buffer/blob.ts"): typeof import("../buffer/blob.ts");
const objectUrls = {
  createObjectURL(...args: unknown[]): string {
    return require("../buffer/blob.ts").createObjectURL(...(args as [unknown]));
  },
  revokeObjectURL(...args: unknown[]): void {
    require("../buffer/blob.ts").revokeObjectURL(...(args as [unknown]));
  },
};
for (const [name, value] of Object.entries(objectUrls)) {
  Object.defineProperty(URL, name, { value, writable: true, enumerable: true, configurable: true });
}
// According to the URL standard, neither is serializable.
addPlatformType({ owns: isOf(URL.prototype, "href") });
addPlatformType({ owns: isOf(URLSearchParams.prototype, "size") });

const URL_FIELDS = [
  ...(["href", "origin", "protocol", "username", "password", "host", "hostname", "port"] as const),
  ...(["pathname", "search", "searchParams", "hash"] as const),
];
showAs("URL", URL, (url) => pickFields(url, URL_FIELDS));
showPairs("URLSearchParams", URLSearchParams, (parameters) => [...parameters]);
