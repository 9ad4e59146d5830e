// Builds the console, for a server that runs from its sources; the build of the package names dist/console. Everything
// is bundled: the page loads nothing of another origin.
import { fileURLToPath } from "node:url";
import { defineConfig, type UserConfig } from "vite";
import { editorLibraries, TYPESCRIPT } from "../editor/libraries.ts";
import { compressFiles } from "./compress-files.ts";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

const config: UserConfig = defineConfig({
  root: path(".."),
  base: "/console/",
  resolve: { alias: { "glovebox/client": path("../../client/index.ts"), typescript6: TYPESCRIPT } },
  plugins: [compressFiles(path("../../../node_modules/.cache/glovebox/brotli"))],
  worker: { format: "es", plugins: () => [editorLibraries()] },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: path("../../../node_modules/.cache/glovebox/console"),
    emptyOutDir: true,
    // The policy of the page allows no inline scripts and no data URLs but images.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2024",
    chunkSizeWarningLimit: 1_000,
  },
});
export default config;
