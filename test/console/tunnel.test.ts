// The command that the sign-in page shows where a connection is not encrypted.
import { expect, test } from "vitest";
import { toTunnel } from "../../src/console/state/tunnel.ts";

test.for([
  ["10.0.0.7", "7070", "ssh -N -L 7070:10.0.0.7:7070 10.0.0.7", "http://127.0.0.1:7070/console"],
  ["tools.example.com", "", "ssh -N -L 7070:tools.example.com:80 tools.example.com", "http://127.0.0.1:7070/console"],
  ["[fd00::7]", "8080", "ssh -N -L 8080:[fd00::7]:8080 fd00::7", "http://127.0.0.1:8080/console"],
] as const)("leads to the address that the browser has reached: %s, port %s", ([hostname, port, tunnel, url]) => {
  expect(toTunnel({ hostname, port })).toEqual({ tunnel, url });
});
