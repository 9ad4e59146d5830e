// Types of imports without their own.
declare module "*.py" {
  const source: string;
  export default source;
}

/** Emscripten's half of Pyodide. The package does not export it, so the build resolves its path. */
declare module "pyodide/pyodide.asm.mjs" {
  const createPyodideModule: (settings: never) => Promise<never>;
  export default createPyodideModule;
}
