// The oldest Node that can run Glovebox. Imported first by the command line, on any Node: it imports nothing.

/** As `engines` of package.json states. */
const MIN_NODE_MAJOR = 24;

/** Returns why a version of Node cannot run Glovebox, or undefined for one that can. */
export function oldNodeMessage(version: string = process.versions.node): string | undefined {
  if (Number.parseInt(version, 10) >= MIN_NODE_MAJOR) return undefined;
  return `glovebox needs Node ${MIN_NODE_MAJOR} or newer; this is Node ${version}`;
}
