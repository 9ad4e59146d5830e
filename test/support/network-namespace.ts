// Networks of their own for processes under test: a process in one reaches the test through one link, which can be taken down.
import { execFileSync } from "node:child_process";

/** Whether this process may create network namespaces: it is root, and `ip` is installed. */
export const hasNetworkNamespaces: boolean = (() => {
  if (process.getuid?.() !== 0) return false;
  try {
    const name = `gbt${process.pid}`;
    execFileSync("ip", ["netns", "add", name], { stdio: "ignore" });
    execFileSync("ip", ["netns", "delete", name], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
})();

export interface NetworkNamespace extends Disposable {
  /** Address of this test for processes in the namespace. */
  readonly hostAddress: string;
  /** Arguments in front of a program that is to run in the namespace. */
  readonly wrapper: readonly string[];
  /** Loses all packets between the namespace and the rest, in both directions. */
  cut(): void;
  restore(): void;
}

const ip = (...args: readonly string[]): void => void execFileSync("ip", args, { stdio: ["ignore", "ignore", "pipe"] });

/** @param index number of the namespace among those of this process, from 0 to 63 */
export function openNetworkNamespace(index: number): NetworkNamespace {
  const name = `gbn${process.pid}-${index}`;
  // At most 15 characters.
  const [outer, inner] = [`gbo${process.pid % 1e6}x${index}`, `gbi${process.pid % 1e6}x${index}`];
  const prefix = `10.${(process.pid >> 8) & 255}.${process.pid & 255}`;
  const [hostAddress, guestAddress] = [`${prefix}.${4 * index + 1}`, `${prefix}.${4 * index + 2}`];
  ip("netns", "add", name);
  try {
    ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name);
    ip("addr", "add", `${hostAddress}/30`, "dev", outer);
    ip("link", "set", outer, "up");
    ip("-n", name, "addr", "add", `${guestAddress}/30`, "dev", inner);
    ip("-n", name, "link", "set", inner, "up");
    ip("-n", name, "link", "set", "lo", "up");
  } catch (thrown) {
    ip("netns", "delete", name);
    throw thrown;
  }
  return {
    hostAddress,
    wrapper: ["ip", "netns", "exec", name],
    cut: () => ip("link", "set", outer, "down"),
    restore: () => ip("link", "set", outer, "up"),
    // The link ends with its namespace.
    [Symbol.dispose]: () => ip("netns", "delete", name),
  };
}
