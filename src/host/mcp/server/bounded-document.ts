// A JSON document of an authorization server: fetched with an end in time, size and redirects.

const MAX_BYTES = 256 * 1024;
const TIMEOUT_MS = 5_000;

/**
 * @param url https, or http on this machine (`isSecure`)
 * @throws {Error} for any answer but 200 with JSON of at most 256 KiB within five seconds; redirects are not followed
 */
export async function fetchDocument(url: URL): Promise<unknown> {
  const response = await fetch(url, {
    redirect: "error",
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  try {
    if (response.status !== 200) throw new Error(`Expected status 200 of ${url.href}, got ${response.status}`);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of response.body ?? []) {
      bytes += part.byteLength;
      if (bytes > MAX_BYTES) throw new Error(`Expected at most ${MAX_BYTES} bytes of ${url.href}`);
      parts.push(part);
    }
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } finally {
    // Of what is left unread nothing more comes.
    if (!response.bodyUsed) await response.body?.cancel();
  }
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** Whether nobody between here and there can change what it says. */
export const isSecure = ({ protocol, hostname }: URL): boolean =>
  protocol === "https:" || (protocol === "http:" && LOOPBACK.has(hostname));
