// URL and URLSearchParams: whatwg-url, with stand-ins for what it needs of tr46 and the legacy encodings (see sandbox-artifacts.ts).
import { URL, URLSearchParams } from "whatwg-url";
import { addPlatformType } from "../structured-clone.ts";

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

export { URL, URLSearchParams };
