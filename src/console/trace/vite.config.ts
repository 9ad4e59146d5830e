// Builds the script and the style of the page that `glovebox run --trace` writes. One file each, because they are put into the page.
import { fileURLToPath } from "node:url";
import { defineConfig, type UserConfig } from "vite";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

const config: UserConfig = defineConfig({
  root: path("."),
  resolve: { alias: { "glovebox/client": path("../../client/index.ts") } },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: path("../../../node_modules/.cache/glovebox/trace"),
    emptyOutDir: true,
    cssCodeSplit: false,
    target: "es2024",
    rolldownOptions: {
      input: path("main.tsx"),
      output: { format: "iife", entryFileNames: "trace.js", assetFileNames: "trace[extname]" },
    },
  },
});
export default config;
