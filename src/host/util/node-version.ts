// Checks the version of Node. The command line imports this file first, on any version, so it imports nothing itself.

/** Equals `engines` of package.json. */
const MIN_NODE_MAJOR = 24;

/** Returns why a version of Node cannot run Glovebox; undefined if it can. */
export function oldNodeMessage(version: string = process.versions.node): string | undefined {
  if (Number.parseInt(version, 10) >= MIN_NODE_MAJOR) return undefined;
  return `glovebox needs Node ${MIN_NODE_MAJOR} or newer; this is Node ${version}`;
}
