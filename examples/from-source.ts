// Lets the examples run inside the Glovebox repository without a build: resolves "glovebox" and its entry points to their sources.
// Register it with `node --import ./examples/from-source.ts`. In your own project, where the package is installed, it is not needed.
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";

const root = new URL("../", import.meta.url);
const { exports: entryPoints } = JSON.parse(readFileSync(new URL("package.json", root), "utf8"));

registerHooks({
  resolve(specifier, context, nextResolve) {
    const isGlovebox = specifier === "glovebox" || specifier.startsWith("glovebox/");
    const built = isGlovebox ? entryPoints[specifier.replace("glovebox", ".")]?.default : undefined;
    if (built === undefined) return nextResolve(specifier, context);
    // ./dist/host/index.js is built from src/host/index.ts.
    const source = built.replace("./dist/", "src/").replace(/\.js$/, ".ts");
    return nextResolve(new URL(source, root).href, context);
  },
});
