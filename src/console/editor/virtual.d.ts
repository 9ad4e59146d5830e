declare module "virtual:editor-libraries" {
  /** Declaration files by path. */
  const libraries: { readonly [path: string]: string };
  export default libraries;
}
declare module "typescript6" {
  import ts from "../../../.ci/typescript6/node_modules/typescript/lib/typescript.d.ts";

  export default ts;
}
