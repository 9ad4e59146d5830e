// Fetches a JSON document of an authorization server, with limits on time and size and without redirects.

const MAX_BYTES = 256 * 1024;
const TIMEOUT_MS = 5_000;

/**
 * @param url https, or http on this machine (see `isSecureUrl`)
 * @throws {Error} for any response other than 200 with JSON of at most 256 KiB within five seconds; redirects are not followed
 */
export async function fetchDocument(url: URL): Promise<unknown> {
  const response = await fetch(url, {
    redirect: "error",
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  try {
    if (response.status !== 200) throw new Error(`Expected status 200 from ${url.href}, got ${response.status}`);
    const parts: Uint8Array[] = [];
    let bytes = 0;
    for await (const part of response.body ?? []) {
      bytes += part.byteLength;
      if (bytes > MAX_BYTES) throw new Error(`Expected at most ${MAX_BYTES} bytes from ${url.href}`);
      parts.push(part);
    }
    return JSON.parse(Buffer.concat(parts).toString("utf8"));
  } finally {
    // Releases the connection if the body was not read to its end.
    if (!response.bodyUsed) await response.body?.cancel();
  }
}
