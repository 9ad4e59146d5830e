// What the runtime is bundled with and that brings no types.
declare module "*.py" {
  const source: string;
  export default source;
}

/** Emscripten's half of Pyodide: the package exports it under no name, the build knows where it lies. */
declare module "pyodide/pyodide.asm.mjs" {
  const createPyodideModule: (settings: never) => Promise<never>;
  export default createPyodideModule;
}
