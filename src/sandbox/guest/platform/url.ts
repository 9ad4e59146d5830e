// URL and URLSearchParams: the classes of whatwg-url, with stand-ins for what they are not to bring along (see sandbox-artifacts.ts).
import { addPlatformType } from "../platform-types.ts";

interface Classes {
  readonly URL: typeof import("whatwg-url").URL;
  readonly URLSearchParams: typeof import("whatwg-url").URLSearchParams;
}
/** As the package puts a class on a global object: here on one of ours. */
interface Interface {
  install(target: object, names: readonly string[]): void;
}
declare function require(name: "whatwg-url/webidl2js-wrapper.js"): Readonly<Record<keyof Classes, Interface>>;

const target = { Array, Object, Promise, String, TypeError } as unknown as Classes;
const interfaces = require("whatwg-url/webidl2js-wrapper.js");
interfaces.URL.install(target, ["Worker"]);
interfaces.URLSearchParams.install(target, ["Worker"]);
export const { URL, URLSearchParams } = target;

/** Has the internal slots of an interface: what its getter is asked for throws otherwise. */
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

// The build tells classes of one name apart by a number.
for (const [name, made] of Object.entries({ URL, URLSearchParams })) {
  Object.defineProperty(made, "name", { value: name, configurable: true });
}
// By its file, as an import would be: loaded when it is first used.
declare function require(file: "./blob.ts"): typeof import("./blob.ts");
const objectUrls = {
  createObjectURL(...args: unknown[]): string {
    return require("./blob.ts").createObjectURL(...(args as [unknown]));
  },
  revokeObjectURL(...args: unknown[]): void {
    require("./blob.ts").revokeObjectURL(...(args as [unknown]));
  },
};
for (const [name, value] of Object.entries(objectUrls)) {
  Object.defineProperty(URL, name, { value, writable: true, enumerable: true, configurable: true });
}
// Neither is serializable, says the URL standard.
addPlatformType({ owns: isOf(URL.prototype, "href") });
addPlatformType({ owns: isOf(URLSearchParams.prototype, "size") });
