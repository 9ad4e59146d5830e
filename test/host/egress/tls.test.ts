// TLS: the connection goes to the checked address, and the certificate is checked against the name.
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { onLoopback, rejectionOf, TestCall } from "../../support/egress.ts";
import { makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { type HttpProgram, toolOf } from "../../support/http-origin.ts";

const read = (name: string): string => readFileSync(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url), "utf8");
const trusted = getCACertificates();
let server: Server;
let port = 0;
let asked: (string | false | null | undefined)[] = [];

beforeAll(async () => {
  server = createServer({ cert: read("cert"), key: read("key") }, (request, response) => {
    asked.push((request.socket as TLSSocket).servername);
    response.end(request.headers.host);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
afterEach(() => {
  setDefaultCACertificates(trusted);
  vi.unstubAllEnvs();
  asked = [];
});

const callTo = (host: string): TestCall =>
  new TestCall({ allow: onLoopback(`https://${host}:${port}`), resolve: () => ["127.0.0.1"] });
const untrusted = (words: string) => ({
  code: "TOOL_FAILED",
  message: `The exchange failed: TLS certificate ${words}`,
});

describe("an https request", () => {
  test("goes to the address that was checked, with the name in TLS and in Host", async () => {
    setDefaultCACertificates([...trusted, read("cert")]);
    const { text } = await callTo("secure.test").fetch(`https://secure.test:${port}/`);
    expect([text, asked]).toEqual([`secure.test:${port}`, ["secure.test"]]);
  });

  test("fails for a certificate of another name", async () => {
    setDefaultCACertificates([...trusted, read("cert")]);
    expect(await rejectionOf(callTo("other.test").request(`https://other.test:${port}/`))).toEqual(
      untrusted("is for another host"),
    );
    expect(await rejectionOf(callTo("127.0.0.1").request(`https://127.0.0.1:${port}/`))).toEqual(
      untrusted("is for another host"),
    );
    expect(asked).toEqual([]);
  });

  test("fails for an untrusted certificate, whatever the environment sets", async () => {
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    expect(await rejectionOf(callTo("secure.test").request(`https://secure.test:${port}/`))).toEqual(
      untrusted("is self-signed"),
    );
    expect(asked).toEqual([]);
  });

  test("a request of node:https in a tool reaches the server, or fails with the code of Node.js", async () => {
    setDefaultCACertificates([...trusted, read("cert")]);
    const allow = onLoopback(`https://secure.test:${port}`, `https://other.test:${port}`);
    await using glovebox = await makeGlovebox({
      egress: { allow, resolve: () => ["127.0.0.1"] },
      limits: { timeoutMs: 120_000 },
    });
    const program: HttpProgram = async ({ https, port }) => {
      const get = (host: string): Promise<unknown> =>
        new Promise((resolve) => {
          const request = https.get({ host, port, rejectUnauthorized: false }, async (response) => {
            let text = "";
            for await (const chunk of response) text += String(chunk);
            resolve([response.statusCode, text, (response.socket as { encrypted?: boolean }).encrypted]);
          });
          request.on("error", (error) => resolve((error as { code?: string }).code));
        });
      return [await get("secure.test"), await get("other.test")];
    };
    await glovebox.addTool({ name: "get", source: toolOf(program) }, { grant: ["fetch"] });
    const result = await glovebox.execute({ id: "c1", toolName: "get", arguments: { port } });
    expect(outputOf(result)).toEqual([[200, `secure.test:${port}`, true], "ERR_TLS_CERT_ALTNAME_INVALID"]);
  });
});
