// The esbuild plugin through which all imports of a tool go: ImportResolver decides where each leads, and ModuleLoader reads what is there.
import type { OnLoadArgs, OnResolveArgs, PartialMessage, Plugin } from "esbuild";
import { BuildIssueError } from "../compile/child/build-messages.ts";
import { BundledModules } from "./bundled-modules.ts";
import { type ImportPolicyOptions, ImportResolver } from "./import-resolver.ts";

function toMessage(thrown: unknown): PartialMessage {
  // Only messages of Glovebox are forwarded: an error of fs contains host paths.
  if (!(thrown instanceof BuildIssueError)) return { text: "The bundler failed while it read this import" };
  return { text: thrown.issue.message, detail: { hint: thrown.issue.hint } };
}

/** Turns exceptions into messages that contain no path of the host. */
function guarded<Args, Result>(respond: (args: Args) => Result | Promise<Result>) {
  return async (args: Args): Promise<Result | { errors: PartialMessage[] }> => {
    try {
      return await respond(args);
    } catch (error) {
      return { errors: [toMessage(error)] };
    }
  };
}

export function createImportPolicy(options: ImportPolicyOptions): Plugin {
  return {
    name: "import-policy",
    setup(build) {
      const resolver = new ImportResolver(options, build);
      const loader = new BundledModules(options, build, resolver);
      build.onResolve(
        { filter: /.*/ },
        guarded((args: OnResolveArgs) => resolver.resolve(args)),
      );
      build.onLoad(
        { filter: /.*/ },
        guarded((args: OnLoadArgs) => loader.load(args)),
      );
    },
  };
}
