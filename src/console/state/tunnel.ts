// The command that makes a server reachable at an address of the user's own machine, where browsers need no HTTPS.

/** Port of the tunnel where the server has port 80, which only administrators may open. */
const LOCAL_PORT = "7070";

/**
 * Returns the command of an SSH tunnel to a server without HTTPS, and the address of the console through it. It leads to the same address of
 * the server that the browser has reached, whatever else the server listens on.
 */
export function toTunnel({ hostname, port }: { readonly hostname: string; readonly port: string }): {
  readonly tunnel: string;
  readonly url: string;
} {
  const local = port === "" ? LOCAL_PORT : port;
  // ssh takes an IPv6 address in brackets in -L only.
  const machine = hostname.replace(/^\[(.*)\]$/, "$1");
  return {
    tunnel: `ssh -N -L ${local}:${hostname}:${port === "" ? "80" : port} ${machine}`,
    url: `http://127.0.0.1:${local}/console`,
  };
}
